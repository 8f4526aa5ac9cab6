#include "runtime/spawner/tier/guarded_slot.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/wire/guard.h"

namespace atl::spawner {

Status MakeDirectory(const char* path, mode_t mode) {
  if (::mkdir(path, mode) != 0) return FailSys(std::string("mkdir ") + path);
  return {};
}

Status MountGuardDirectory() {
  ATOLL_TRY(MakeDirectory(wire::kGuardDirectory, 0700));
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(wire::kGuardDirectory, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(
      const UniqueFd own,
      NewMount("tmpfs", {{"mode", "0700"}, {"size", "1m"}, {"nr_inodes", "160"}}, kNoSuidDev));
  return Attach(own.get(), target.get(), wire::kGuardDirectory);
}

// Covered and not taken off: where the mount namespace belongs to the user namespace, the mount is
// locked. Nobody in the slot keeps the right to take the cover off.
Status CoverStore(RootState&) {
  if (::chdir("/") != 0) return FailSys("chdir /");
  ATOLL_ASSIGN(const UniqueFd target, sys::Open("/store", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd cover,
               NewMount("tmpfs", {{"mode", "0555"}, {"size", "4k"}, {"nr_inodes", "2"}},
                        kNoSuidDevExec | MOUNT_ATTR_RDONLY));
  return Attach(cover.get(), target.get(), "/store");
}

}  // namespace atl::spawner
