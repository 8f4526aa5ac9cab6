#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cstdint>

#include "runtime/base/project_quota.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/store/store_image.h"
#include "tools/atoll/words/text.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/place.h"

namespace atl::doctor {
namespace {

constexpr uint64_t kMinFree = uint64_t{2} << 30;
constexpr uint32_t kXfsMagic = 0x58465342;  // not in linux/magic.h

std::string FileSystemName(uint64_t magic) {
  switch (magic) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case kXfsMagic:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlayfs";
    case NFS_SUPER_MAGIC:
      return "nfs";
    default:
      return "another file system";
  }
}

}  // namespace

std::string ExistingParent(std::string path) {
  while (access(path.c_str(), F_OK) != 0) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    path.erase(slash);
    if (path.empty()) return "/";
  }
  return path;
}

Finding CheckDataDir(const HostOptions& options) {
  const std::string name = "data directory";
  const std::string place = ExistingParent(options.data_dir);
  struct statfs status {};
  if (statfs(place.c_str(), &status) != 0) {
    return Missing(name, "cannot look at " + place, "check storage.data_dir");
  }
  const uint64_t free = uint64_t{status.f_bavail} * static_cast<uint64_t>(status.f_bsize);
  const std::string kind = FileSystemName(static_cast<uint64_t>(status.f_type));
  const std::string text = options.data_dir + ": " + kind + ", " + cli::HumanSize(free) + " free";
  if (kind == "overlayfs" || kind == "nfs") {
    return Missing(name, text + "; layers cannot live there",
                   "put storage.data_dir on ext4 or xfs");
  }
  if (kind == "tmpfs") {
    return Warning(name, text + "; images are lost at the next boot, and take memory",
                   "put storage.data_dir on ext4 or xfs");
  }
  if (free < kMinFree) {
    return Warning(name, text, "make room: images and sandboxes need some GiB");
  }
  if (kind != "ext4" && kind != "xfs") {
    return Warning(name, text + "; not tested", "put storage.data_dir on ext4 or xfs");
  }
  return Ok(name, text);
}

Finding CheckDiskLimits(const HostOptions& options) {
  const std::string name = "disk limits";
  const std::string store = options.data_dir + "/store";
  const std::string place = ExistingParent(store);
  // O_PATH, because the caller may lack the right to read the directory.
  const auto directory = sys::Open(place, O_PATH | O_DIRECTORY);
  if (!directory) {
    return Warning(name, "cannot look at " + place, "check storage.data_dir");
  }
  if (quota::Enforced(directory->get())) return Ok(name, place + " enforces project quotas");
  const std::string image = spawner::StoreImagePath(options.data_dir);
  if (access(image.c_str(), F_OK) == 0) {
    if (!spawner::IsMountPoint(store)) {
      return Ok(name, image + " is there; the spawner mounts it when it starts");
    }
    return Warning(name, store + " is a mount without project quotas, in place of " + image,
                   "umount " + store + " and start the daemon again");
  }
  const std::string text = "the file system of " + place +
                           " enforces no project quotas: sandboxes can fill it, and requests for a "
                           "disk limit are refused";
  return Warning(
      name, text,
      quota::Remedy() + ", or set storage.ignore_disk_limits to let such requests pass unenforced");
}

}  // namespace atl::doctor
