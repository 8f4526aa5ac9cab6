#include "runtime/spawner/kernel/link_bytes.h"

#include "cgroup/keyed_number.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

Result<uint64_t> ReadCounter(int links, const std::string& name, const char* counter) {
  const std::string path = "devices/virtual/net/" + name + counter;
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(links, path, 64));
  const auto value = cgroup::LeadingNumber(text);
  if (!value) return Fail(Code::kInternal, path + " has no number");
  return *value;
}

}  // namespace

Result<UniqueFd> MountLinks() {
  return NewMount("sysfs", {}, kNoSuidDevExec | MOUNT_ATTR_RDONLY);
}

Result<LinkBytes> ReadLinkBytes(int links, const std::string& name) {
  LinkBytes bytes;
  ATOLL_ASSIGN(bytes.received, ReadCounter(links, name, "/statistics/rx_bytes"));
  ATOLL_ASSIGN(bytes.sent, ReadCounter(links, name, "/statistics/tx_bytes"));
  return bytes;
}

}  // namespace atl::spawner
