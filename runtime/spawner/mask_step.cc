#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/mounts.h"
#include "runtime/spawner/root_steps.h"

namespace atl::spawner {
namespace {

// What tells about the host or reaches it and is world-readable, so that the user namespace alone
// does not hide it: the list of OCI runtimes and a few more. What this kernel does not have is
// passed over.
constexpr const char* kMaskedInProc[] = {
    "acpi",        "asound", "bus",           "fs",         "interrupts",    "irq",
    "kallsyms",    "kcore",  "key-users",     "keys",       "latency_stats", "modules",
    "sched_debug", "scsi",   "sysrq-trigger", "timer_list", "timer_stats"};
constexpr const char* kMaskedInSys[] = {"firmware", "devices/virtual/powercap"};

Status CheckNull(int null) {
  struct stat info {};
  if (::fstat(null, &info) != 0 || !S_ISCHR(info.st_mode) || info.st_rdev != makedev(1, 3)) {
    return Fail(Code::kInternal, "/dev/null is not the null device");
  }
  return {};
}

}  // namespace

Status MaskPaths(ChildState& state) {
  // The source of every mask comes from our own template, not from a name in the new root, and is
  // looked at (CVE-2025-31133).
  const int devices = state.input->slot->devices.get();
  ATOLL_ASSIGN(const UniqueFd null, sys::OpenBeneath(devices, "null", O_PATH | O_NOFOLLOW));
  ATOLL_TRY(CheckNull(null.get()));
  // By name, so that it is this mount namespace's copy of the mount, which alone may be cloned
  // here.
  ATOLL_ASSIGN(const UniqueFd empty,
               sys::Open(state.input->host->staging + "/empty", O_PATH | O_DIRECTORY));

  const auto mask = [&](int root, const char* path) -> Status {
    auto target = sys::OpenBeneath(root, path, O_PATH | O_NOFOLLOW);
    if (!target) {
      return target.error().error_number() == ENOENT ? Status() : Fail(std::move(target).error());
    }
    struct stat info {};
    if (::fstat(target->get(), &info) != 0) return FailSys(std::string("fstat ") + path);
    if (S_ISDIR(info.st_mode)) {
      ATOLL_ASSIGN(const UniqueFd cover, CloneMount(empty.get(), "", false));
      return Attach(cover.get(), target->get(), path);
    }
    ATOLL_ASSIGN(const UniqueFd cover, CloneMount(null.get(), "", false));
    return Attach(cover.get(), target->get(), path);
  };
  for (const char* path : kMaskedInProc) ATOLL_TRY(mask(state.proc.get(), path));
  for (const char* path : kMaskedInSys) ATOLL_TRY(mask(state.sys.get(), path));

  // Everything below /proc/sys is the host's or the namespaces' business: read-only, on top of the
  // kernel's own checks (release_agent, core_pattern, binfmt_misc).
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenBeneath(state.proc.get(), "sys", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd readonly, CloneMount(state.proc.get(), "sys", false));
  ATOLL_TRY(SetMountAttributes(readonly.get(), MOUNT_ATTR_RDONLY, -1, false));
  return Attach(readonly.get(), target.get(), "/proc/sys");
}

}  // namespace atl::spawner
