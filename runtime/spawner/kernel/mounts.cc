#include "runtime/spawner/kernel/mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace atl::spawner {

Result<UniqueFd> NewMount(const char* type, const MountOptions& options, uint64_t attributes) {
  const UniqueFd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) return FailSys(std::string("fsopen ") + type);
  for (const auto& [key, value] : options) {
    const int result = value.empty()
                           ? ::fsconfig(context.get(), FSCONFIG_SET_FLAG, key, nullptr, 0)
                           : ::fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0);
    if (result != 0) {
      return FailSys("fsconfig " + std::string(type) + " " + key + "=" + value);
    }
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return FailSys(std::string("create file system ") + type);
  }
  UniqueFd mount(::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes)));
  if (!mount) return FailSys(std::string("fsmount ") + type);
  return mount;
}

Result<UniqueFd> CloneMount(int dirfd, const char* path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
                         (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0u);
  UniqueFd mount(::open_tree(dirfd, path, flags));
  if (!mount) return FailSys(std::string("open_tree ") + path);
  return mount;
}

Status SetMountAttributes(int mount, uint64_t set, int user_namespace, bool recursive,
                          uint64_t propagation) {
  mount_attr attributes{};
  attributes.propagation = propagation;
  attributes.attr_set = set;
  if (user_namespace >= 0) {
    attributes.attr_set |= MOUNT_ATTR_IDMAP;
    attributes.userns_fd = static_cast<uint64_t>(user_namespace);
  }
  const unsigned flags = AT_EMPTY_PATH | (recursive ? static_cast<unsigned>(AT_RECURSIVE) : 0u);
  if (::mount_setattr(mount, "", flags, &attributes, sizeof attributes) != 0) {
    return FailSys(user_namespace >= 0 ? "mount_setattr idmap" : "mount_setattr");
  }
  return {};
}

Status CheckWritableOverlay(int overlay) {
  struct statfs info {};
  if (::fstatfs(overlay, &info) != 0) return FailSys("fstatfs overlay");
  if (info.f_type != OVERLAYFS_SUPER_MAGIC) {
    return Fail(Code::kInternal, "the mount is not an overlay");
  }
  if ((static_cast<unsigned long>(info.f_flags) & ST_RDONLY) == 0) return {};
  return Fail(Error(Code::kResourceExhausted,
                    "the kernel mounted the overlay read-only, as it does when the store has no "
                    "room for its work directory: make room in <data_dir>",
                    ENOSPC));
}

Status Attach(int mount, int target, const char* what) {
  if (::move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return FailSys(std::string("move_mount onto ") + what);
  }
  return {};
}

}  // namespace atl::spawner
