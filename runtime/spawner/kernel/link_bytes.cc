#include "runtime/spawner/kernel/link_bytes.h"

#include <charconv>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

uint64_t ReadCounter(int links, const std::string& name, const char* counter) {
  const auto text = sys::ReadFileAt(links, "devices/virtual/net/" + name + counter, 64);
  uint64_t value = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

}  // namespace

Result<UniqueFd> MountLinks() {
  return NewMount("sysfs", {}, kNoSuidDevExec | MOUNT_ATTR_RDONLY);
}

LinkBytes ReadLinkBytes(int links, const std::string& name) {
  if (links < 0 || name.empty()) return {};
  return {.received = ReadCounter(links, name, "/statistics/rx_bytes"),
          .sent = ReadCounter(links, name, "/statistics/tx_bytes")};
}

}  // namespace atl::spawner
