#include "runtime/spawner/kernel/cgroup_holder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "cgroup/host.h"
#include "runtime/base/notify.h"
#include "runtime/base/sys.h"

namespace atl::spawner {
namespace {

// Returns the path of the v2 line of /proc/self/cgroup: "0::/path".
Result<std::string> OwnGroup() {
  ATOLL_ASSIGN(const std::string groups, sys::ReadFileAt(AT_FDCWD, "/proc/self/cgroup", 64 << 10));
  const size_t at = groups.find("0::/");
  if (at == std::string::npos) return Fail(Code::kUnavailable, "no cgroup v2 in /proc/self/cgroup");
  return groups.substr(at + 3, groups.find('\n', at) - at - 3);
}

}  // namespace

Status HoldCgroup() {
  ATOLL_ASSIGN(const cgroup::Host host, cgroup::DetectHost());
  ATOLL_ASSIGN(const std::string group, OwnGroup());
  if (host.v2) {
    const std::string leaf = host.unified + group + "/holder";
    if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return FailSys("mkdir " + leaf);
    ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, leaf + "/cgroup.procs", "0"));
  }
  NotifySystemd("READY=1");
  for (;;) ::pause();
}

}  // namespace atl::spawner
