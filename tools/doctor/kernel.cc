#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/kernel_version.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/sysctl.h"

namespace atl::doctor {
namespace {

constexpr KernelVersion kFloor{6, 1};

}  // namespace

std::string ReadSysctl(const std::string& name) {
  auto text = sys::ReadFileAt(AT_FDCWD, "/proc/sys/" + name, 4096);
  if (!text) return {};
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

Finding CheckRoot() {
  if (geteuid() == 0) return Ok("root", "running as root");
  return Warning("root", "not running as root: what needs it cannot be checked",
                 "run: sudo atoll doctor");
}

Finding CheckKernelVersion() {
  utsname name{};
  uname(&name);
  const std::string found = std::string("Linux ") + name.release;
  if (ParseKernelVersion(name.release) >= kFloor) return Ok("kernel", found);
  return Missing("kernel", found + " is too old: id-mapped mounts on overlayfs need 6.1",
                 "boot Linux 6.1 or later (Debian 12 has it)");
}

Finding CheckUserNamespaces() {
  const auto made = spawner::MakeUserNamespace({0, 0x78000000});
  if (made) return Ok("user namespaces", "can be made");
  if (ReadSysctl("user/max_user_namespaces") == "0") {
    return Missing("user namespaces", "switched off (user.max_user_namespaces = 0)",
                   "run: sysctl -w user.max_user_namespaces=15000, and keep it in /etc/sysctl.d");
  }
  return Missing("user namespaces", "cannot be made: " + made.error().message(),
                 geteuid() == 0 ? "check the kernel (CONFIG_USER_NS) and the security module's log"
                                : "run: sudo atoll doctor");
}

Finding CheckSeccomp() {
  const std::string actions = ReadSysctl("kernel/seccomp/actions_avail");
  if (actions.find("kill_process") != std::string::npos) {
    return Ok("seccomp", "filters available (" + actions + ")");
  }
  return Missing("seccomp", "the kernel has no seccomp filters",
                 "use a kernel with CONFIG_SECCOMP_FILTER");
}

Finding CheckMemfdExec() {
  // vm.memfd_noexec (Linux 6.3): 2 forbids to execute sealed memfds, in which Atoll passes programs
  // on.
  const std::string value = ReadSysctl("vm/memfd_noexec");
  if (value != "2") return Ok("memfd", "sealed programs can be executed");
  return Missing("memfd", "vm.memfd_noexec = 2 forbids to execute sealed memfds",
                 "run: sysctl -w vm.memfd_noexec=1, and keep it in /etc/sysctl.d");
}

}  // namespace atl::doctor
