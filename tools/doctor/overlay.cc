// Tries the same mount as a sandbox's root: overlayfs with userxattr over an id-mapped clone of the
// data directory.
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/securebits.h>

#include <cerrno>

#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/child.h"
#include "tools/doctor/place.h"

namespace atl::doctor {
namespace {

// Unused ids, as owners on disk and as a sandbox's ids.
constexpr uid_t kStoreBase = 0x70000000;
constexpr uid_t kSandboxBase = 0x78000000;

Status MakeTree(int dir) {
  for (const char* name : {"lower", "upper", "work", "root"}) {
    if (mkdirat(dir, name, 0755) != 0) return FailSys(std::string("mkdir ") + name);
    if (fchownat(dir, name, kStoreBase, kStoreBase, 0) != 0) return FailSys("chown");
  }
  return {};
}

// Mounts and writes within its own mount namespace. Uses descriptors throughout, because the
// working directory becomes the id-mapped clone.
Status MountAndWrite(const std::string& place) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailSys("make mounts private");
  }
  ATOLL_ASSIGN(const UniqueFd map, spawner::MakeUserNamespace({kStoreBase, kSandboxBase}));
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(place, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd clone, spawner::CloneMount(AT_FDCWD, place.c_str(), false));
  ATOLL_TRY(spawner::SetMountAttributes(clone.get(), 0, map.get(), false));
  ATOLL_TRY(spawner::Attach(clone.get(), target.get(), "the probe's directory"));
  if (fchdir(clone.get()) != 0) return FailSys("fchdir");

  // Uses a mapped id like the spawner: an upper directory on an id-mapped mount is read-only if an
  // unmapped id mounts the overlay.
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0) return FailSys("PR_SET_SECUREBITS");
  setfsgid(kSandboxBase);
  setfsuid(kSandboxBase);
  constexpr char kOptions[] = "userxattr,volatile,lowerdir=lower,upperdir=upper,workdir=work";
  if (mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, kOptions) != 0) {
    return FailSys("mount overlay");
  }
  ATOLL_ASSIGN(const UniqueFd file, sys::Open("root/probe", O_WRONLY | O_CREAT | O_EXCL, 0600));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return FailSys("fstat");
  if (status.st_uid != kSandboxBase) {
    return Fail(Code::kInternal, "id-mapping is not applied to new files");
  }
  return {};
}

}  // namespace

Finding CheckOverlay(const HostOptions& options) {
  const std::string name = "overlay";
  if (geteuid() != 0) return Warning(name, "not checked", "run: sudo atoll doctor");
  const std::string parent = ExistingParent(options.data_dir);
  std::string place = parent + "/.atoll-doctor-XXXXXX";
  if (mkdtemp(place.data()) == nullptr) {
    return Missing(name, SysError("mkdtemp " + place).message(),
                   "choose a writable data directory (storage.data_dir)");
  }
  const auto remove = Cleanup([&] {
    const auto dir = sys::Open(parent, O_RDONLY | O_DIRECTORY);
    if (dir) (void)sys::RemoveTree(dir->get(), place.substr(parent.size() + 1));
  });
  const auto made = [&]() -> Status {
    ATOLL_ASSIGN(const UniqueFd dir, sys::Open(place, O_RDONLY | O_DIRECTORY));
    if (fchmod(dir.get(), 0755) != 0) return FailSys("chmod");
    ATOLL_TRY(MakeTree(dir.get()));
    return RunInNamespaces(CLONE_NEWNS, [&] { return MountAndWrite(place); });
  }();
  if (made) return Ok(name, "userxattr and id-mapped layers work below " + parent);
  return Missing(name, "does not work below " + parent + ": " + made.error().message(),
                 "put storage.data_dir on ext4 or xfs, and load the overlay module");
}

}  // namespace atl::doctor
