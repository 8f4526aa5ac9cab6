#include "runtime/spawner/store/store.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/project_quota.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/store/projects.h"

namespace atl::spawner {
namespace {

constexpr int kDir = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

Status EnsureOwned(int dir, const std::string& name, mode_t mode) {
  ATOLL_TRY(sys::EnsureDirAt(dir, name, mode));
  if (::fchownat(dir, name.c_str(), kStoreIdBase, kStoreIdBase, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("chown " + name);
  }
  // The umask has cut mkdir's mode.
  if (::fchmodat(dir, name.c_str(), mode, 0) != 0) return FailSys("chmod " + name);
  return {};
}

Status EnsureOwnedFile(int dir, const char* name) {
  ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644));
  if (::fchown(file.get(), kStoreIdBase, kStoreIdBase) != 0) return FailSys("chown skeleton file");
  return {};
}

// Sets the flag of the top of directory hierarchies (chattr +T), which spreads subdirectories over
// the disk. ext4 otherwise puts their inodes near the directory. Without a journal its search for a
// free inode passes over every one that was freed in the last minutes, one by one (up to 0.8 ms an
// inode, ten of them for each sandbox). Other file systems do not know the flag, and do not need
// it.
Status SpreadDirectories(int dir, const char* name) {
  ATOLL_ASSIGN(const UniqueFd target, sys::OpenAt(dir, name, kDir));
  int flags = 0;
  if (::ioctl(target.get(), FS_IOC_GETFLAGS, &flags) != 0) return {};
  flags |= FS_TOPDIR_FL;
  [[maybe_unused]] const int ignored = ::ioctl(target.get(), FS_IOC_SETFLAGS, &flags);
  return {};
}

Error NoQuota(const std::string& path) {
  return Error(Code::kFailedPrecondition, "disk limit: the file system of " + path +
                                              " enforces no project quotas; " + quota::Remedy());
}

Status CreateSkeleton(int tree) {
  ATOLL_TRY(EnsureOwned(tree, "skeleton", 0755));
  ATOLL_ASSIGN(const UniqueFd root, sys::OpenAt(tree, "skeleton", kDir));
  for (const char* name : {"dev", "proc", "sys", "opt", "opt/opensandbox"}) {
    ATOLL_TRY(EnsureOwned(root.get(), name, 0755));
  }
  ATOLL_TRY(EnsureOwned(root.get(), "tmp", 01777));
  // execd's file of variables for later commands. Made here, it does not cost each sandbox three
  // inodes.
  return EnsureOwnedFile(root.get(), "opt/opensandbox/.env");
}

// Makes the id of the store once, as a whole: a crash in between leaves no half of it.
Result<std::string> EnsureId(int tree) {
  constexpr size_t kDigits = 32;
  const auto there = sys::ReadFileAt(tree, kStoreIdFile, kDigits + 1);
  if (there && there->size() == kDigits) return *there;
  if (!there && there.error().error_number() != ENOENT) return there;
  constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (const char byte : sys::RandomBytes(kDigits / 2)) {
    id += kHex[static_cast<uint8_t>(byte) >> 4];
    id += kHex[static_cast<uint8_t>(byte) & 15];
  }
  const std::string unfinished = std::string(kStoreIdFile) + ".new";
  ATOLL_ASSIGN(const UniqueFd file,
               sys::OpenAt(tree, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644));
  ATOLL_TRY(sys::WriteAll(file.get(), id));
  if (::fsync(file.get()) != 0) return FailSys("fsync " + unfinished);
  if (::renameat(tree, unfinished.c_str(), tree, kStoreIdFile) != 0) {
    return FailSys("rename " + unfinished);
  }
  return id;
}

}  // namespace

Result<Store> Store::Open(const std::string& data_dir) {
  const std::string path = data_dir + "/store";
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, path, 0700));
  ATOLL_ASSIGN(UniqueFd root, sys::Open(path, kDir));
  if (::fchmod(root.get(), 0700) != 0 || ::fchown(root.get(), 0, 0) != 0) {
    return FailSys("chmod " + path);
  }
  // A shared lock keeps out only `atolld storage init`, which wants it alone.
  if (::flock(root.get(), LOCK_SH | LOCK_NB) != 0) {
    return FailSys("flock " + path + " ('atolld storage init' is at work there)");
  }
  ATOLL_TRY(sys::EnsureDirAt(root.get(), "volumes", 0700));
  ATOLL_TRY(EnsureOwned(root.get(), "fs", 0755));
  ATOLL_ASSIGN(UniqueFd tree, sys::OpenAt(root.get(), "fs", kDir));
  ATOLL_TRY(EnsureOwned(tree.get(), "layers", 0755));
  ATOLL_TRY(EnsureOwned(tree.get(), "uppers", 0755));
  ATOLL_TRY(SpreadDirectories(tree.get(), "uppers"));
  ATOLL_TRY(CreateSkeleton(tree.get()));
  const bool has_quota = quota::Enforced(root.get());
  ATOLL_ASSIGN(std::string id, EnsureId(tree.get()));
  return Store(std::move(root), std::move(tree), path, std::move(id), has_quota);
}

std::string Store::PartialLayerPath(wire::LayerId layer) {
  return LayerPath(layer) + ".partial";
}
std::string Store::UpperPath(uint32_t slot) {
  return "fs/uppers/s" + std::to_string(slot);
}

std::string Store::SessionPath(uint32_t slot, uint32_t session) {
  return UpperPath(slot) + "/x" + std::to_string(session);
}

std::string Store::BucketPath(uint32_t slot, uint32_t index) {
  return UpperPath(slot) + "/o" + std::to_string(index);
}

bool Store::HasLayer(wire::LayerId layer) const {
  struct stat info {};
  return ::fstatat(root_.get(), LayerPath(layer).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(info.st_mode);
}

Result<UniqueFd> Store::OpenLayer(wire::LayerId layer) const {
  return sys::OpenBeneath(root_.get(), LayerPath(layer), O_RDONLY | O_DIRECTORY);
}

Result<UniqueFd> Store::CreatePartialLayer(wire::LayerId layer) const {
  if (HasLayer(layer)) {
    return Fail(Code::kAlreadyExists, "layer " + std::to_string(layer) + " exists");
  }
  const std::string path = PartialLayerPath(layer);
  if (::mkdirat(root_.get(), path.c_str(), 0755) != 0) return FailSys("mkdir " + path);
  if (::fchownat(root_.get(), path.c_str(), kStoreIdBase, kStoreIdBase, 0) != 0) {
    return FailSys("chown " + path);
  }
  return sys::OpenAt(root_.get(), path, kDir);
}

Status Store::PublishLayer(wire::LayerId layer, bool lasting) const {
  const std::string from = PartialLayerPath(layer);
  const std::string to = LayerPath(layer);
  ATOLL_ASSIGN(const UniqueFd partial, sys::OpenAt(root_.get(), from, kDir));
  // One sync of the file system instead of one for each file: every file of the layer and its
  // directory entries are on disk before the name is published.
  if (lasting && ::syncfs(partial.get()) != 0) return FailSys("syncfs " + from);
  if (::renameat2(root_.get(), from.c_str(), root_.get(), to.c_str(), RENAME_NOREPLACE) != 0) {
    return FailSys("rename " + from + " to " + to);
  }
  if (!lasting) return {};
  ATOLL_ASSIGN(const UniqueFd layers, sys::OpenAt(tree_.get(), "layers", kDir));
  if (::fsync(layers.get()) != 0) return FailSys("fsync layers");
  return {};
}

Status Store::MakeVolume(uint32_t instance, const std::string& name, uint64_t disk_bytes) const {
  if (disk_bytes != 0 && !has_quota_) return Fail(NoQuota(path_));
  const std::string path = VolumeDirectory(name);
  if (::mkdirat(root_.get(), path.c_str(), 0700) != 0) return FailSys("mkdir " + path);
  // Every user of the sandbox may write, as in an emptyDir of Kubernetes. Nobody else can reach the
  // directory.
  ATOLL_TRY(EnsureOwned(root_.get(), path, 0777));
  ATOLL_ASSIGN(const UniqueFd volume, sys::OpenAt(root_.get(), path, kDir));
  if (has_quota_) {
    if (Status limited = AssignVolumeProject(volume.get(), instance, disk_bytes); !limited) {
      ::unlinkat(root_.get(), path.c_str(), AT_REMOVEDIR);
      return limited;
    }
  }
  if (::fsync(volume.get()) != 0) return FailSys("fsync " + path);
  return SyncVolumes();
}

Status Store::SyncVolumes() const {
  ATOLL_ASSIGN(const UniqueFd volumes, sys::OpenAt(root_.get(), "volumes", kDir));
  if (::fsync(volumes.get()) != 0) return FailSys("fsync volumes");
  return {};
}

Status Store::CreateUpper(uint32_t instance, uint32_t slot, uint64_t disk_bytes) const {
  const std::string path = UpperPath(slot);
  ATOLL_TRY(EnsureOwned(root_.get(), path, 0755));
  if (has_quota_) {
    // Before the two directories are made, which inherit it.
    ATOLL_ASSIGN(const UniqueFd directory, sys::OpenAt(root_.get(), path, kDir));
    ATOLL_TRY(AssignProject(directory.get(), instance, slot, disk_bytes));
  } else if (disk_bytes != 0) {
    return Fail(NoQuota(path_));
  }
  ATOLL_TRY(EnsureOwned(root_.get(), path + "/upper", 0755));
  return EnsureOwned(root_.get(), path + "/work", 0755);
}

Status Store::CreateBucketScratch(uint32_t slot, uint32_t index, uid_t user) const {
  const std::string path = BucketPath(slot, index);
  ATOLL_TRY(sys::EnsureDirAt(root_.get(), path, 0700));
  ATOLL_ASSIGN(const UniqueFd scratch, sys::OpenAt(root_.get(), path, kDir));
  if (::fchown(scratch.get(), user, user) != 0) return FailSys("chown " + path);
  return {};
}

Status Store::CreateSessionUppers(uint32_t slot, uint32_t session, size_t overlays) const {
  const std::string path = SessionPath(slot, session);
  if (::mkdirat(root_.get(), path.c_str(), 0700) != 0) return FailSys("mkdir " + path);
  ATOLL_TRY(EnsureOwned(root_.get(), path, 0700));
  for (size_t i = 0; i < overlays; ++i) {
    const std::string one = path + "/" + std::to_string(i);
    for (const char* name : {"", "/upper", "/work"}) {
      ATOLL_TRY(EnsureOwned(root_.get(), one + name, 0755));
    }
  }
  return {};
}

Result<std::vector<uint32_t>> Store::Uppers() const {
  ATOLL_ASSIGN(const UniqueFd directory, sys::OpenAt(tree_.get(), "uppers", kDir));
  ATOLL_ASSIGN(const std::vector<std::string> names, sys::ListDir(directory.get()));
  std::vector<uint32_t> slots;
  for (const std::string& name : names) {
    if (const uint32_t slot = SlotOf(name); slot != 0) slots.push_back(slot);
  }
  return slots;
}

Status Store::LimitUpper(uint32_t slot, uint64_t disk_bytes) const {
  if (!has_quota_) return Fail(NoQuota(path_));
  ATOLL_ASSIGN(const UniqueFd directory, sys::OpenAt(root_.get(), UpperPath(slot), kDir));
  return LimitProject(directory.get(), disk_bytes);
}

uint64_t Store::UpperBytes(uint32_t slot) const {
  if (!has_quota_) return 0;
  const auto directory = sys::OpenAt(root_.get(), UpperPath(slot), kDir);
  const auto charged =
      directory ? ChargedTo(directory->get()) : Result<quota::Usage>(Fail(directory.error()));
  return charged ? charged->bytes : 0;
}

uint64_t Store::VolumeBytes() const {
  if (!has_quota_) return 0;
  uint64_t bytes = 0;
  const auto volumes = sys::OpenAt(root_.get(), "volumes", kDir);
  const auto names = volumes ? sys::ListSubdirectories(volumes->get())
                             : Result<std::vector<std::string>>(Fail(volumes.error()));
  if (!names) return 0;
  for (const std::string& name : *names) {
    const auto directory = sys::OpenAt(volumes->get(), name, kDir);
    const auto charged =
        directory ? ChargedTo(directory->get()) : Result<quota::Usage>(Fail(directory.error()));
    if (charged) bytes += charged->bytes;
  }
  return bytes;
}

}  // namespace atl::spawner
