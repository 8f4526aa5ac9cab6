#include "execd/isolated/changes.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Recognise overlayfs's marks in an upper directory mounted with userxattr: a deleted name, and a
// directory that hides the lower one.
bool IsWhiteout(const struct stat& info) {
  return S_ISCHR(info.st_mode) && info.st_rdev == 0;
}
bool IsOpaque(int directory) {
  char value = 0;
  return ::fgetxattr(directory, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

bool SameOwner(const struct stat& a, const struct stat& b) {
  return a.st_uid == b.st_uid && a.st_gid == b.st_gid;
}

std::string Target(int directory, const char* name) {
  std::array<char, 4096> text;
  const ssize_t n = ::readlinkat(directory, name, text.data(), text.size());
  return n > 0 ? std::string(text.data(), static_cast<size_t>(n)) : std::string();
}

// A file that was opened for writing is in the upper directory, changed or not; its times tell.
bool Same(const struct stat& now, const struct stat& was, int upper, int lower, const char* name) {
  if ((now.st_mode & S_IFMT) != (was.st_mode & S_IFMT) || !SameOwner(now, was)) return false;
  if (S_ISLNK(now.st_mode)) return Target(upper, name) == Target(lower, name);
  if (now.st_mode != was.st_mode) return false;
  if (!S_ISREG(now.st_mode)) return true;
  return now.st_size == was.st_size && now.st_mtim.tv_sec == was.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == was.st_mtim.tv_nsec;
}

}  // namespace

Result<SessionChanges> SessionChanges::Begin(const KeptOverlay& overlay) {
  ATOLL_ASSIGN(UniqueFd upper, sys::OpenAt(overlay.upper.get(), ".", O_RDONLY | O_DIRECTORY));
  return SessionChanges(overlay.lower.get(), std::move(upper));
}

Status SessionChanges::FindLower(const std::string& directory) {
  if (lower_known_ && lower_path_ == directory) return {};
  auto found = sys::OpenBeneath(root_, directory.empty() ? "." : directory, O_PATH | O_DIRECTORY);
  if (!found) {
    const int error = found.error().error_number();
    if (error == EXDEV) {
      return Fail(Code::kFailedPrecondition,
                  directory + ": something else is mounted there in the sandbox");
    }
    // ELOOP: a link is in its place, so it is no directory either.
    if (error != ENOENT && error != ENOTDIR && error != ELOOP) return Fail(found.error());
  }
  lower_ = found ? std::move(*found) : UniqueFd();
  lower_path_ = directory;
  lower_known_ = true;
  return {};
}

// Returns true if the directory differs from the lower one. Remembers the names that it hides.
Result<bool> SessionChanges::CompareDirectory(const TreeWalk::Entry& entry,
                                              const struct stat* was) {
  ATOLL_ASSIGN(UniqueFd own, sys::OpenAt(walk_.dir(), std::string(entry.name),
                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (pure_depth_ == 0 && IsOpaque(own.get())) pure_depth_ = entry.depth;
  if (was == nullptr || !S_ISDIR(was->st_mode)) return true;
  if (pure_depth_ != 0) {
    ATOLL_ASSIGN(hidden_,
                 sys::OpenBeneath(lower_.get(), std::string(entry.name), O_RDONLY | O_DIRECTORY));
    size_t bytes = 0;
    ATOLL_TRY(sys::EachName(hidden_.get(), [&](const char* name) {
      hidden_names_.emplace_back(name);
      bytes += sizeof(std::string) + hidden_names_.back().size();
      return bytes <= TreeWalk::kMaxNames;
    }));
    if (bytes > TreeWalk::kMaxNames) {
      return Fail(Code::kResourceExhausted, entry.path + ": holds too many names");
    }
    hiding_ = std::move(own);
    hidden_path_ = entry.path + "/";
  }
  return entry.info.st_mode != was->st_mode || !SameOwner(entry.info, *was);
}

Result<SessionChanges::Step> SessionChanges::NextHidden(SessionChange* change) {
  std::string name = std::move(hidden_names_.back());
  hidden_names_.pop_back();
  struct stat now;
  if (::fstatat(hiding_.get(), name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0) return Step::kNothing;
  if (errno != ENOENT) return FailSys("stat " + hidden_path_ + name);
  if (::fstatat(hidden_.get(), name.c_str(), &change->was, AT_SYMLINK_NOFOLLOW) != 0) {
    return Step::kNothing;
  }
  change->kind = SessionChange::Kind::kDeleted;
  change->path = hidden_path_ + name;
  change->name = std::move(name);
  change->upper = hiding_.get();
  change->lower = hidden_.get();
  return Step::kChange;
}

Result<SessionChanges::Step> SessionChanges::Next(SessionChange* change) {
  if (!hidden_names_.empty()) return NextHidden(change);
  if (!walk_.Next(&entry_)) {
    if (walk_.whole()) return Step::kEnd;
    return Fail(
        Code::kFailedPrecondition,
        "directories of the session were moved or became unreadable while they were compared");
  }
  if (entry_.path.size() > kMaxPath) {
    return Fail(Code::kResourceExhausted, "a path of more than " + std::to_string(kMaxPath) +
                                              " bytes: " + entry_.path.substr(0, 64) + "…");
  }
  if (pure_depth_ != 0 && entry_.depth <= pure_depth_) pure_depth_ = 0;
  ATOLL_TRY(FindLower(entry_.path.substr(0, entry_.path.size() - entry_.name.size())));
  change->path = entry_.path;
  change->name = entry_.name;
  change->upper = walk_.dir();
  change->lower = lower_ ? lower_.get() : -1;
  change->now = entry_.info;
  const bool existed = lower_ && ::fstatat(lower_.get(), change->name.c_str(), &change->was,
                                           AT_SYMLINK_NOFOLLOW) == 0;
  if (lower_ && !existed && errno != ENOENT) return FailSys("stat " + entry_.path);
  if (IsWhiteout(entry_.info)) {
    change->kind = SessionChange::Kind::kDeleted;
    return existed ? Step::kChange : Step::kNothing;
  }
  change->kind = existed ? SessionChange::Kind::kModified : SessionChange::Kind::kAdded;
  bool differs = !existed;
  if (S_ISDIR(entry_.info.st_mode)) {
    ATOLL_ASSIGN(differs, CompareDirectory(entry_, existed ? &change->was : nullptr));
  } else if (existed) {
    differs = !Same(change->now, change->was, change->upper, change->lower, change->name.c_str());
  }
  return differs ? Step::kChange : Step::kNothing;
}

}  // namespace atl::execd
