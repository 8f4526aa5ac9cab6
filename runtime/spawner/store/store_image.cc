#include "runtime/spawner/store/store_image.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "runtime/base/project_quota.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::spawner {
namespace {

// Others may look for a free device at the same moment. More attempts than this are no accident.
constexpr int kAttempts = 64;

std::string StorePath(const std::string& data_dir) {
  return data_dir + "/store";
}

// Opens the image, which must be root's own. Another owner could feed the kernel a forged file
// system.
Result<UniqueFd> OpenImage(const std::string& image) {
  ATOLL_ASSIGN(UniqueFd file, sys::Open(image, O_RDWR | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FailSys("fstat " + image);
  if (!S_ISREG(info.st_mode) || info.st_uid != 0 || (info.st_mode & 0077) != 0) {
    return Fail(Code::kFailedPrecondition,
                image +
                    " must be a regular file, root's and nobody else's to read or write: "
                    "chown root " +
                    image + " && chmod 0600 " + image);
  }
  return file;
}

// Returns whether the block device beneath `mounted` is a loop device on the file `image`.
bool IsOnImage(const std::string& mounted, const std::string& image) {
  struct stat on {
  }, wanted{}, backing{};
  if (::stat(mounted.c_str(), &on) != 0 || ::stat(image.c_str(), &wanted) != 0) return false;
  auto path = sys::ReadFileAt(AT_FDCWD,
                              "/sys/dev/block/" + std::to_string(major(on.st_dev)) + ":" +
                                  std::to_string(minor(on.st_dev)) + "/loop/backing_file",
                              4096);
  if (!path) return false;
  while (path->ends_with('\n')) path->pop_back();
  return ::stat(path->c_str(), &backing) == 0 && backing.st_dev == wanted.st_dev &&
         backing.st_ino == wanted.st_ino;
}

}  // namespace

std::string StoreImagePath(const std::string& data_dir) {
  return data_dir + "/store.xfs";
}

Result<LoopDevice> AttachLoop(int image) {
  auto control = sys::Open("/dev/loop-control", O_RDWR);
  if (!control) {
    return Fail(
        std::move(control).error().Wrap("no loop devices (load the module: modprobe loop)"));
  }
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int number = ::ioctl(control->get(), LOOP_CTL_GET_FREE);
    if (number < 0) return FailSys("LOOP_CTL_GET_FREE");
    LoopDevice device;
    device.path = "/dev/loop" + std::to_string(number);
    ATOLL_ASSIGN(device.fd, sys::Open(device.path, O_RDWR));
    loop_config config{};
    config.fd = static_cast<unsigned>(image);
    // Direct I/O caches the pages of a file once, above the device. The kernel leaves it out where
    // the file system beneath cannot do it. With autoclear nobody has to take the device down.
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if (::ioctl(device.fd.get(), LOOP_CONFIGURE, &config) == 0) return device;
    // Another process was quicker.
    if (errno != EBUSY) return FailSys("LOOP_CONFIGURE " + device.path);
  }
  return Fail(Code::kUnavailable, "every free loop device was taken by somebody else");
}

Result<UniqueFd> MountImage(const std::string& image) {
  ATOLL_ASSIGN(const UniqueFd file, OpenImage(image));
  ATOLL_ASSIGN(const LoopDevice device, AttachLoop(file.get()));
  auto mount = NewMount("xfs", {{"source", device.path}, {"prjquota", ""}}, kNoSuidDev);
  // ENODEV: no XFS. EINVAL: no quotas in it (CONFIG_XFS_QUOTA), or no XFS in the image.
  if (!mount &&
      (mount.error().error_number() == ENODEV || mount.error().error_number() == EINVAL)) {
    return Fail(Error(Code::kUnavailable,
                      "this kernel cannot mount " + image +
                          " as XFS with project quotas: " + mount.error().message(),
                      mount.error().error_number()));
  }
  if (!mount) return Fail(std::move(mount).error().Wrap("mount " + image));
  if (!quota::Enforced(mount->get())) {
    return Fail(Code::kUnavailable, "this kernel does not enforce project quotas on " + image);
  }
  return mount;
}

bool IsMountPoint(const std::string& path) {
  // Linux 5.8. Not by st_dev, which a bind mount shares with its surroundings.
  struct statx info {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) == 0 &&
         (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Result<bool> StoreHasContent(const std::string& data_dir) {
  for (const char* name : {"/fs/layers", "/fs/uppers"}) {
    const auto directory = sys::Open(StorePath(data_dir) + name, O_RDONLY | O_DIRECTORY);
    if (!directory && directory.error().code() == Code::kNotFound) continue;
    if (!directory) return Fail(directory.error());
    ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory->get()));
    if (!names.empty()) return true;
  }
  return false;
}

Status MountStore(const std::string& data_dir) {
  const std::string image = StoreImagePath(data_dir);
  const std::string path = StorePath(data_dir);
  struct stat info {};
  if (::lstat(image.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return FailSys("stat " + image);
  }
  if (IsMountPoint(path)) return {};
  ATOLL_ASSIGN(const bool content, StoreHasContent(data_dir));
  if (content) {
    return Fail(Code::kFailedPrecondition, path + " has images or sandboxes that mounting " +
                                               image + " would hide: move one of the two away");
  }
  ATOLL_ASSIGN(const UniqueFd mount, MountImage(image));
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, path, 0700));
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  return Attach(mount.get(), target.get(), path.c_str());
}

Status UnmountStore(const std::string& data_dir) {
  const std::string path = StorePath(data_dir);
  if (!IsMountPoint(path) || !IsOnImage(path, StoreImagePath(data_dir))) return {};
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0) return FailSys("umount " + path);
  return {};
}

}  // namespace atl::spawner
