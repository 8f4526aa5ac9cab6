#include "images/unpack/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "images/unpack/entry_path.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

constexpr mode_t kImpliedMode = 0755;
constexpr size_t kMaxDirectoryTimes = 64 << 20;
constexpr char kOpaqueXattr[] = "user.overlay.opaque";

Result<struct stat> StatAt(int parent, const std::string& name) {
  struct stat st {};
  if (::fstatat(parent, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("stat " + name);
  }
  return st;
}

// An attribute that cannot be set must not stop an import (a file system without user xattrs, a
// symbolic link). A full disk must.
Status CheckXattr(int rc, const std::string& name) {
  if (rc == 0 || errno == EPERM || errno == EOPNOTSUPP || errno == EINVAL) return {};
  return FailSys("setxattr " + name);
}

}  // namespace

bool IsWhiteout(const struct stat& st) {
  return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

Status LayerTree::CountEntry() {
  if (++entries_ > limits_.max_entries) {
    return Fail(Code::kResourceExhausted, "the archive has more than the " +
                                              std::to_string(limits_.max_entries) +
                                              " files and directories allowed");
  }
  return {};
}

Result<UniqueFd> LayerTree::MakeImpliedDirectory(int parent, const std::string& name) {
  ATOLL_TRY(CountEntry());
  bool was_whiteout = false;
  if (::mkdirat(parent, name.c_str(), kImpliedMode) != 0) {
    if (errno != EEXIST) return FailSys("mkdir " + name);
    ATOLL_ASSIGN(const struct stat st, StatAt(parent, name));
    if (!IsWhiteout(st)) {
      return Fail(Code::kInvalidArgument,
                  S_ISLNK(st.st_mode)
                      ? "'" + name + "' in its path is a symbolic link that leads nowhere"
                      : "'" + name + "' in its path is not a directory");
    }
    ATOLL_TRY(Remove(parent, name, &was_whiteout));
    if (::mkdirat(parent, name.c_str(), kImpliedMode) != 0) return FailSys("mkdir " + name);
  }
  ATOLL_ASSIGN(UniqueFd made, sys::OpenBeneath(parent, name, O_RDONLY | O_DIRECTORY));
  // A set-group-id parent would have passed on its group and the bit.
  if (::fchown(made.get(), 0, 0) != 0) return FailSys("chown " + name);
  if (::fchmod(made.get(), kImpliedMode) != 0) return FailSys("chmod " + name);
  if (was_whiteout) ATOLL_TRY(SetOpaque(made.get(), name));
  return made;
}

Result<UniqueFd> LayerTree::OpenOrMakeParents(const Path& path) {
  const size_t count = path.size() - 1;
  auto whole = sys::OpenInRoot(root_.get(), JoinPath(path, count), O_PATH | O_DIRECTORY);
  if (whole ||
      (whole.error().error_number() != ENOENT && whole.error().error_number() != ENOTDIR)) {
    return whole;
  }
  ATOLL_ASSIGN(UniqueFd at, sys::OpenInRoot(root_.get(), ".", O_PATH | O_DIRECTORY));
  for (size_t i = 1; i <= count; ++i) {
    auto next = sys::OpenInRoot(root_.get(), JoinPath(path, i), O_PATH | O_DIRECTORY);
    if (!next) {
      const int number = next.error().error_number();
      if (number != ENOENT && number != ENOTDIR) return next;
      next = MakeImpliedDirectory(at.get(), path[i - 1]);
      if (!next) return next;
    }
    at = *std::move(next);
  }
  return at;
}

Result<int> LayerTree::Parent(const Path& path) {
  ATOLL_CHECK(!path.empty());
  if (path.size() == 1) return root_.get();
  std::string name = JoinPath(path, path.size() - 1);
  if (!cached_ || name != cached_name_) {
    ATOLL_ASSIGN(cached_, OpenOrMakeParents(path));
    cached_name_ = std::move(name);
  }
  return cached_.get();
}

Status LayerTree::Remove(int parent, const std::string& name, bool* was_whiteout) {
  ATOLL_ASSIGN(const struct stat st, StatAt(parent, name));
  if (was_whiteout != nullptr) *was_whiteout = IsWhiteout(st);
  // The cached descriptor stays open, because the caller uses it; only its name is no longer
  // trusted.
  cached_name_.clear();
  if (::unlinkat(parent, name.c_str(), 0) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return FailSys("unlink " + name);
  return sys::RemoveTree(parent, name);
}

Status LayerTree::ApplyToFd(int fd, const std::string& name, const Attributes& attributes) {
  // chown clears the set-id bits and the capability, so it comes first.
  if (::fchown(fd, attributes.uid, attributes.gid) != 0) return FailSys("chown " + name);
  if (::fchmod(fd, attributes.mode & 07777) != 0) return FailSys("chmod " + name);
  for (const auto& [key, value] : attributes.xattrs) {
    ATOLL_TRY(CheckXattr(::fsetxattr(fd, key.c_str(), value.data(), value.size(), 0),
                         key + " on " + name));
  }
  const timespec times[2] = {attributes.mtime, attributes.mtime};
  if (::futimens(fd, times) != 0) return FailSys("utimens " + name);
  return {};
}

Status LayerTree::ApplyNoFollow(int parent, const std::string& name, const Attributes& attributes) {
  if (::fchownat(parent, name.c_str(), attributes.uid, attributes.gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("chown " + name);
  }
  const timespec times[2] = {attributes.mtime, attributes.mtime};
  if (::utimensat(parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("utimens " + name);
  }
  return {};
}

Status LayerTree::AddFile(const Path& path, const Attributes& attributes, const Fill& fill) {
  ATOLL_TRY(CountEntry());
  ATOLL_ASSIGN(const int parent, Parent(path));
  const std::string& name = path.back();
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  auto file = sys::OpenBeneath(parent, name, kFlags, 0600);
  if (!file && file.error().error_number() == EEXIST) {
    // Creates a new inode instead of truncating the old one, which may have other names.
    ATOLL_TRY(Remove(parent, name));
    file = sys::OpenBeneath(parent, name, kFlags, 0600);
  }
  if (!file) return Fail(std::move(file).error());
  ATOLL_TRY(fill(file->get()));
  return ApplyToFd(file->get(), name, attributes);
}

Status LayerTree::AddDirectory(const Path& path, const Attributes& attributes) {
  // The same limit as in TreeCopy and PackTree, which read the layer later.
  if (path.size() > kMaxDepth) {
    return Fail(Code::kInvalidArgument,
                "it is nested deeper than " + std::to_string(kMaxDepth) + " directories");
  }
  ATOLL_TRY(CountEntry());
  ATOLL_TRY(RememberTime(path, attributes.mtime));
  if (path.empty()) return ApplyToFd(root_.get(), ".", attributes);
  ATOLL_ASSIGN(const int parent, Parent(path));
  const std::string& name = path.back();
  bool was_whiteout = false;
  if (::mkdirat(parent, name.c_str(), 0700) != 0) {
    if (errno != EEXIST) return FailSys("mkdir " + name);
    ATOLL_ASSIGN(const struct stat st, StatAt(parent, name));
    if (!S_ISDIR(st.st_mode)) {
      ATOLL_TRY(Remove(parent, name, &was_whiteout));
      if (::mkdirat(parent, name.c_str(), 0700) != 0) return FailSys("mkdir " + name);
    }
  }
  ATOLL_ASSIGN(const UniqueFd directory,
               sys::OpenBeneath(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (was_whiteout) ATOLL_TRY(SetOpaque(directory.get(), name));
  return ApplyToFd(directory.get(), name, attributes);
}

Status LayerTree::AddSymlink(const Path& path, const Attributes& attributes,
                             const std::string& target) {
  ATOLL_TRY(CountEntry());
  ATOLL_ASSIGN(const int parent, Parent(path));
  const std::string& name = path.back();
  if (::symlinkat(target.c_str(), parent, name.c_str()) != 0) {
    if (errno != EEXIST) return FailSys("symlink " + name);
    ATOLL_TRY(Remove(parent, name));
    if (::symlinkat(target.c_str(), parent, name.c_str()) != 0) return FailSys("symlink " + name);
  }
  return ApplyNoFollow(parent, name, attributes);
}

Status LayerTree::AddFifo(const Path& path, const Attributes& attributes) {
  ATOLL_TRY(CountEntry());
  ATOLL_ASSIGN(const int parent, Parent(path));
  const std::string& name = path.back();
  // The umask is 0, so no chmod is needed. chmod could not be told not to follow links.
  const mode_t mode = S_IFIFO | (attributes.mode & 07777);
  if (::mknodat(parent, name.c_str(), mode, 0) != 0) {
    if (errno != EEXIST) return FailSys("mkfifo " + name);
    ATOLL_TRY(Remove(parent, name));
    if (::mknodat(parent, name.c_str(), mode, 0) != 0) return FailSys("mkfifo " + name);
  }
  return ApplyNoFollow(parent, name, attributes);
}

Status LayerTree::AddHardLink(const Path& path, const Path& target) {
  ATOLL_TRY(CountEntry());
  if (target.empty()) return Fail(Code::kInvalidArgument, "a hard link to the root directory");
  ATOLL_ASSIGN(const int parent, Parent(path));
  auto from =
      sys::OpenInRoot(root_.get(), JoinPath(target, target.size() - 1), O_PATH | O_DIRECTORY);
  const std::string& name = path.back();
  struct stat st {};
  if (!from || ::fstatat(from->get(), target.back().c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return Fail(Code::kInvalidArgument,
                "a hard link to '" + JoinPath(target) + "', which this layer does not have");
  }
  if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISFIFO(st.st_mode)) {
    return Fail(Code::kInvalidArgument,
                "a hard link to '" + JoinPath(target) + "', which is not a file");
  }
  if (::linkat(from->get(), target.back().c_str(), parent, name.c_str(), 0) == 0) return {};
  if (errno != EEXIST) return FailSys("link " + name);
  ATOLL_ASSIGN(const struct stat existing, StatAt(parent, name));
  if (existing.st_ino == st.st_ino && existing.st_dev == st.st_dev) return {};
  ATOLL_TRY(Remove(parent, name));
  if (::linkat(from->get(), target.back().c_str(), parent, name.c_str(), 0) != 0) {
    return FailSys("link " + name);
  }
  return {};
}

Status LayerTree::AddWhiteout(const Path& path) {
  ATOLL_TRY(CountEntry());
  ATOLL_ASSIGN(const int parent, Parent(path));
  const std::string& name = path.back();
  // The only device node that a user namespace may create (Linux 5.8: WHITEOUT_DEV in vfs_mknod).
  if (::mknodat(parent, name.c_str(), S_IFCHR, makedev(0, 0)) == 0) return {};
  if (errno != EEXIST) return FailSys("mknod whiteout " + name);
  ATOLL_ASSIGN(const struct stat st, StatAt(parent, name));
  if (!S_ISDIR(st.st_mode)) return {};  // any other file hides the layers below anyway
  ATOLL_ASSIGN(const UniqueFd directory,
               sys::OpenBeneath(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  return SetOpaque(directory.get(), name);
}

Status LayerTree::AddOpaque(const Path& directory) {
  if (directory.empty()) {
    // overlayfs ignores the mark on the root of a layer, so whoever stacks the layers must handle
    // it.
    opaque_root_ = true;
    return {};
  }
  Path inside = directory;
  inside.emplace_back();
  ATOLL_ASSIGN(const int parent, Parent(inside));
  // The cached parent is O_PATH, which fsetxattr(2) does not accept.
  ATOLL_ASSIGN(const UniqueFd fd, sys::OpenBeneath(parent, ".", O_RDONLY | O_DIRECTORY));
  return SetOpaque(fd.get(), directory.back());
}

Status LayerTree::SetOpaque(int directory, const std::string& name) {
  // Must not fail silently: without the mark a sandbox would see files that the image's author
  // deleted.
  if (::fsetxattr(directory, kOpaqueXattr, "y", 1, 0) != 0) {
    return FailSys(std::string("setxattr ") + kOpaqueXattr + " on " + name);
  }
  return {};
}

Status LayerTree::RememberTime(const Path& path, const timespec& mtime) {
  std::string name = JoinPath(path);
  directory_times_bytes_ += name.size() + sizeof(directory_times_[0]);
  if (directory_times_bytes_ > kMaxDirectoryTimes) {
    return Fail(Code::kResourceExhausted, "the names of the archive's directories take more than " +
                                              std::to_string(kMaxDirectoryTimes) + " bytes");
  }
  directory_times_.emplace_back(std::move(name), mtime);
  return {};
}

Status LayerTree::Finish() {
  for (const auto& [name, mtime] : directory_times_) {
    auto directory = sys::OpenInRoot(root_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!directory) continue;  // replaced by a later entry
    const timespec times[2] = {mtime, mtime};
    if (::futimens(directory->get(), times) != 0) return FailSys("utimens " + name);
  }
  // One syncfs for all files. Publishing the layer then needs to sync only its name.
  if (::syncfs(root_.get()) != 0) return FailSys("syncfs");
  return {};
}

}  // namespace atl::images::unpack
