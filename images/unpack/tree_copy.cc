#include "images/unpack/tree_copy.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "images/report.h"
#include "images/unpack/entry_path.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

bool Earlier(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

bool Same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

std::string Under(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "/" + name;
}

}  // namespace

bool IsOfOneSandbox(std::string_view path) {
  // The first three are written anew for every sandbox, over any existing file.
  constexpr std::string_view kFiles[] = {"etc/hostname",
                                         "etc/hosts",
                                         "etc/resolv.conf",
                                         "etc/machine-id",
                                         "var/lib/dbus/machine-id",
                                         "var/lib/systemd/random-seed",
                                         "var/lib/urandom/random-seed"};
  return std::find(std::begin(kFiles), std::end(kFiles), path) != std::end(kFiles);
}

bool IsCopied(std::string_view xattr) {
  if (xattr.starts_with("user.overlay.")) {
    // "user.overlay.overlay.…" is what a sandbox itself calls "user.overlay.…" (Linux 6.7).
    return xattr == "user.overlay.opaque" || xattr.starts_with("user.overlay.overlay.");
  }
  return xattr.starts_with("user.") || xattr == "security.capability" ||
         xattr == "system.posix_acl_access" || xattr == "system.posix_acl_default";
}

bool TreeCopy::Vanished() const {
  return !still_ && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ESTALE);
}

// A write to a page that is mapped and dirty changes no ctime. Writing the page back protects it,
// and the next write then causes a fault that gives the file a new ctime. But the fault sets the
// time first, may wait for the journal, and only then makes the page dirty; similarly, write(2)
// sets the time once, before its first byte. A write-back between these two steps protects nothing,
// and the file looks unchanged.
//
// At the time of this call, nothing of that kind is in progress. A file with an older ctime has
// made its pages dirty before. The pass writes them back, and afterwards they cannot change without
// a new ctime: the file is settled.
Status TreeCopy::Mark() {
  // The clock from which the kernel takes the times of inodes.
  if (::clock_gettime(CLOCK_REALTIME_COARSE, &marked_) != 0) return FailSys("clock_gettime");
  return {};
}

Status TreeCopy::Pass(bool still) {
  ++pass_;
  still_ = still;
  entries_ = bytes_ = copied_ = 0;
  if (!still_ && ::syncfs(to_) != 0) return FailSys("syncfs");
  ATOLL_TRY(Fill({from_, to_, "", 0, false}));
  std::erase_if(seen_, [this](const auto& entry) { return entry.second.pass != pass_; });
  std::erase_if(linked_, [this](const auto& entry) { return !seen_.contains(entry.first); });
  return {};
}

TreeCopy::Seen* TreeCopy::Find(ino_t inode) {
  const auto found = seen_.find(inode);
  return found == seen_.end() ? nullptr : &found->second;
}

bool TreeCopy::IsCurrent(const Seen* seen, const struct stat& now) const {
  // A file that this pass has met under another name was copied or compared already.
  return seen != nullptr && Same(seen->changed, now.st_ctim) && seen->size == now.st_size &&
         seen->blocks == now.st_blocks && (seen->settled || seen->pass == pass_);
}

void TreeCopy::Remember(const struct stat& now, ino_t made) {
  timespec least = marked_;
  // Some file systems keep only whole seconds. A file from the current second may still change
  // within it.
  if (now.st_ctim.tv_nsec == 0) least.tv_nsec = 0;
  seen_[now.st_ino] = {now.st_ctim, now.st_size, now.st_blocks,
                       made,        pass_,       Earlier(now.st_ctim, least)};
}

Status TreeCopy::Count(const struct stat& now, const std::string& path) {
  if (++entries_ > limits_.max_entries) {
    return Fail(Code::kResourceExhausted, "more than the " + std::to_string(limits_.max_entries) +
                                              " files and directories that a snapshot may have");
  }
  if (path.size() > kMaxPath) {
    return Fail(Code::kInvalidArgument, "a path is longer than " + std::to_string(kMaxPath) +
                                            " bytes: " + Printable(path, 80));
  }
  // A file with several names counts once.
  const Seen* seen = now.st_nlink > 1 && !S_ISDIR(now.st_mode) ? Find(now.st_ino) : nullptr;
  if (seen == nullptr || seen->pass != pass_) bytes_ += static_cast<uint64_t>(now.st_blocks) * 512;
  if (bytes_ <= limits_.max_bytes) return {};
  return Fail(Error(Code::kResourceExhausted,
                    "no room for it: snapshots may use " + std::to_string(limits_.max_bytes) +
                        " bytes more on this host",
                    ENOSPC));
}

Result<bool> TreeCopy::Fill(Place place) {
  struct stat now {
  }, made{};
  // Before the names are read, so that the next pass sees later changes.
  if (::fstat(place.from, &now) != 0 || ::fstat(place.to, &made) != 0) {
    return FailSys("fstat " + place.path);
  }
  const Seen* seen = Find(now.st_ino);
  place.same = IsCurrent(seen, now) && seen->made == made.st_ino;
  ATOLL_ASSIGN(std::vector<std::string> names, sys::ListDir(place.from));
  // A name that is removed and created again while the directory is read may be listed twice.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  bool changed = false;
  for (const std::string& name : names) {
    ATOLL_ASSIGN(const bool entry, Entry(place, name));
    changed = changed || entry;
  }
  if (!place.same && pass_ > 1) {
    ATOLL_ASSIGN(const bool removed, RemoveOthers(place, names));
    changed = changed || removed;
  }
  // After the entries, because they have changed the directory's times.
  if (!place.same || changed) ATOLL_TRY(CopyAttributes(place.from, place.to, now, place.path));
  Remember(now, made.st_ino);
  return changed || !place.same;
}

Result<bool> TreeCopy::RemoveOthers(const Place& place, const std::vector<std::string>& names) {
  ATOLL_ASSIGN(const std::vector<std::string> copies, sys::ListDir(place.to));
  bool removed = false;
  for (const std::string& name : copies) {
    if (std::binary_search(names.begin(), names.end(), name)) continue;
    ATOLL_TRY(sys::RemoveTree(place.to, name));
    removed = true;
  }
  return removed;
}

Result<bool> TreeCopy::Entry(const Place& place, const std::string& name) {
  struct stat now {
  }, there{};
  const std::string path = Under(place.path, name);
  if (::fstatat(place.from, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) {
    if (Vanished()) return false;
    return FailSys("stat " + path);
  }
  ATOLL_TRY(Count(now, path));
  const bool kept = !S_ISREG(now.st_mode) || !IsOfOneSandbox(path);
  Seen* const seen = Find(now.st_ino);
  const bool current = kept && !S_ISDIR(now.st_mode) && IsCurrent(seen, now);
  if (current && place.same && now.st_nlink == 1) {
    seen->pass = pass_;
    return false;
  }
  bool exists = pass_ > 1 && ::fstatat(place.to, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && current && there.st_ino == seen->made) {
    seen->pass = pass_;
    if (now.st_nlink > 1) linked_[now.st_ino] = path;
    return false;
  }
  if (exists && !(kept && S_ISDIR(now.st_mode) && S_ISDIR(there.st_mode))) {
    ATOLL_TRY(sys::RemoveTree(place.to, name));
    exists = false;
    if (!kept) return true;
  }
  if (!kept) return false;
  if (S_ISDIR(now.st_mode)) return Directory(place, name, exists);
  if (current && now.st_nlink > 1 && LinkToCopy(*seen, now.st_ino, place, name)) {
    seen->pass = pass_;
    return true;
  }
  ATOLL_ASSIGN(const std::optional<ino_t> made, Make(place, name, &now));
  if (!made) return true;
  Remember(now, *made);
  if (now.st_nlink > 1) linked_[now.st_ino] = path;
  return true;
}

Result<bool> TreeCopy::Directory(const Place& place, const std::string& name, bool exists) {
  const std::string path = Under(place.path, name);
  if (place.depth == kMaxDepth) {
    return Fail(Code::kInvalidArgument, "it is nested deeper than " + std::to_string(kMaxDepth) +
                                            " directories: " + Printable(path, 80));
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
  const auto from = sys::OpenAt(place.from, name, kFlags);
  if (!from) {
    errno = from.error().error_number();
    if (Vanished()) return false;
    return Fail(from.error());
  }
  if (!exists && ::mkdirat(place.to, name.c_str(), 0700) != 0) return FailSys("mkdir " + path);
  ATOLL_ASSIGN(const UniqueFd to, sys::OpenAt(place.to, name, kFlags));
  ATOLL_ASSIGN(const bool changed, Fill({from->get(), to.get(), path, place.depth + 1, false}));
  // Changes within this directory affect the parent's times only if its name is new.
  return !exists || (changed && !place.same);
}

bool TreeCopy::LinkToCopy(const Seen& seen, ino_t inode, const Place& place,
                          const std::string& name) {
  const auto found = linked_.find(inode);
  struct stat copy {};
  // The name may belong to another file by now, or may have moved with its directory.
  return found != linked_.end() &&
         ::fstatat(to_, found->second.c_str(), &copy, AT_SYMLINK_NOFOLLOW) == 0 &&
         copy.st_ino == seen.made &&
         ::linkat(to_, found->second.c_str(), place.to, name.c_str(), 0) == 0;
}

Result<std::optional<ino_t>> TreeCopy::Make(const Place& place, const std::string& name,
                                            struct stat* now) {
  if (S_ISREG(now->st_mode)) return MakeFile(place, name, now);
  const std::string path = Under(place.path, name);
  if (S_ISLNK(now->st_mode)) {
    std::string target(kMaxPath + 1, '\0');
    const ssize_t size = ::readlinkat(place.from, name.c_str(), target.data(), target.size());
    if (size < 0 && (Vanished() || (!still_ && errno == EINVAL))) return std::nullopt;
    if (size < 0) return FailSys("readlink " + path);
    target.resize(static_cast<size_t>(size));
    if (::symlinkat(target.c_str(), place.to, name.c_str()) != 0) {
      return FailSys("symlink " + path);
    }
  } else {
    // A whiteout is the only device node that a user namespace may create (Linux 5.8).
    if (S_ISBLK(now->st_mode) || (S_ISCHR(now->st_mode) && now->st_rdev != makedev(0, 0))) {
      return Fail(Code::kInvalidArgument, "a device node: " + Printable(path, 80));
    }
    if (::mknodat(place.to, name.c_str(), now->st_mode, 0) != 0) return FailSys("mknod " + path);
  }
  const timespec times[2] = {now->st_atim, now->st_mtim};
  struct stat made {};
  if (::fchownat(place.to, name.c_str(), now->st_uid, now->st_gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("chown " + path);
  }
  if (::utimensat(place.to, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("utimens " + path);
  }
  if (::fstatat(place.to, name.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("stat the copy of " + path);
  }
  return made.st_ino;
}

Result<std::optional<ino_t>> TreeCopy::MakeFile(const Place& place, const std::string& name,
                                                struct stat* now) {
  const std::string path = Under(place.path, name);
  // O_NONBLOCK, because the file may have become a fifo.
  const auto from = sys::OpenAt(place.from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!from) {
    errno = from.error().error_number();
    if (Vanished() || (!still_ && errno == ENXIO)) return std::nullopt;
    return Fail(from.error());
  }
  if (::fstat(from->get(), now) != 0) return FailSys("fstat " + path);
  if (!S_ISREG(now->st_mode)) {
    if (!still_) return std::nullopt;
    return Fail(Code::kInternal, "a file of a paused sandbox has changed: " + Printable(path, 80));
  }
  ATOLL_ASSIGN(const UniqueFd to,
               sys::OpenAt(place.to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  const Status copied = CopyContent(from->get(), to.get(), static_cast<uint64_t>(now->st_size));
  if (!copied) return Fail(Error(copied.error()).Wrap(Printable(path, 80)));
  ATOLL_TRY(CopyAttributes(from->get(), to.get(), *now, path));
  struct stat made {};
  if (::fstat(to.get(), &made) != 0) return FailSys("fstat the copy of " + path);
  return made.st_ino;
}

Status TreeCopy::CopyContent(int from, int to, uint64_t size) {
  if (size == 0) return {};
  // FICLONE shares the blocks until either file is written to.
  if (clones_) {
    if (::ioctl(to, FICLONE, from) == 0) return {};
    if (errno != EOPNOTSUPP && errno != EXDEV && errno != EINVAL && errno != ENOTTY) {
      return FailSys("FICLONE");
    }
    // EINVAL concerns only this file; other errors mean that the file system cannot clone
    clones_ = errno == EINVAL;
  }
  const auto end = static_cast<off_t>(size);
  if (::ftruncate(to, end) != 0) return FailSys("ftruncate");
  off_t at = 0;
  while (at < end) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};  // the rest is a hole
    if (data < 0) return FailSys("lseek SEEK_DATA");
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0) {
      if (errno == ENXIO && !still_) return {};  // truncated meanwhile
      return FailSys("lseek SEEK_HOLE");
    }
    at = std::min(hole, end);
    if (data < at) ATOLL_TRY(CopyRange(from, to, data, at));
  }
  return {};
}

Status TreeCopy::CopyRange(int from, int to, off_t begin, off_t end) {
  off_t in = begin, out = begin;
  while (in < end) {
    const ssize_t n = ::copy_file_range(from, &in, to, &out, static_cast<size_t>(end - in), 0);
    if (n < 0) return FailSys("copy_file_range");
    if (n == 0) return {};  // truncated meanwhile
    // A running sandbox may fill holes while they are read.
    if ((copied_ += static_cast<uint64_t>(n)) > limits_.max_bytes) {
      return Fail(Error(Code::kResourceExhausted, "no room for it", ENOSPC));
    }
  }
  return {};
}

Status TreeCopy::CopyAttributes(int from, int to, const struct stat& now, const std::string& path) {
  // chown clears the set-id bits and the capability. Setting or removing an access list changes the
  // mode.
  if (::fchown(to, now.st_uid, now.st_gid) != 0) return FailSys("chown " + path);
  if (pass_ > 1) ATOLL_TRY(RemoveXattrs(to));
  if (::fchmod(to, now.st_mode & 07777) != 0) return FailSys("chmod " + path);
  ATOLL_TRY(CopyXattrs(from, to, path));
  const timespec times[2] = {now.st_atim, now.st_mtim};
  if (::futimens(to, times) != 0) return FailSys("utimens " + path);
  return {};
}

Status TreeCopy::EachXattr(int fd, const std::function<Status(const char* name)>& each) {
  names_.resize(kMaxXattrs);
  const ssize_t size = ::flistxattr(fd, names_.data(), names_.size());
  if (size < 0) return FailSys("listxattr");
  std::string_view left(names_.data(), static_cast<size_t>(size));
  for (; !left.empty(); left.remove_prefix(left.find('\0') + 1)) {
    if (IsCopied(left.substr(0, left.find('\0')))) ATOLL_TRY(each(left.data()));
  }
  return {};
}

// Removes the attributes of a copy from an earlier pass, because some may be gone from the source.
// A new file may have inherited one.
Status TreeCopy::RemoveXattrs(int to) {
  return EachXattr(to, [to](const char* name) -> Status {
    if (::fremovexattr(to, name) == 0 || errno == ENODATA) return {};
    return FailSys("removexattr " + Printable(name, 80));
  });
}

Status TreeCopy::CopyXattrs(int from, int to, const std::string& path) {
  return EachXattr(from, [&](const char* name) -> Status {
    value_.resize(kMaxXattrs);
    const ssize_t size = ::fgetxattr(from, name, value_.data(), value_.size());
    if (size < 0 && errno == ENODATA && !still_) return {};
    if (size < 0) return FailSys("getxattr " + Printable(name, 80) + " of " + path);
    if (::fsetxattr(to, name, value_.data(), static_cast<size_t>(size), 0) == 0) return {};
    return FailSys("setxattr " + Printable(name, 80) + " of " + path);
  });
}

}  // namespace atl::images::unpack
