#include "execd/isolated/commit.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execd/files/body_walk.h"
#include "execd/files/tree_walk.h"
#include "execd/http/json.h"
#include "execd/http/request_json.h"
#include "runtime/base/clock.h"
#include "runtime/base/own_directory.h"
#include "runtime/base/sys.h"
#include "runtime/base/tree_removal.h"

namespace atl::execd {
namespace {

using Kind = SessionChange::Kind;

constexpr size_t kPiece = 1 << 20;
// Limit on directories that must become read-only once their contents are complete.
constexpr size_t kMaxSealed = 65'536;

// Copies a file to a temporary name in its directory, and renames it once it is complete.
class FileCopy {
 public:
  FileCopy() = default;
  FileCopy(const FileCopy&) = delete;
  FileCopy& operator=(const FileCopy&) = delete;
  // Runs with the identity that created the file.
  ~FileCopy() {
    if (!temporary_.empty()) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
  }

  Status Begin(const SessionChange& change) {
    name_ = change.name;
    ATOLL_ASSIGN(from_,
                 sys::OpenAt(change.upper, name_, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (::fstat(from_.get(), &info_) != 0) return FailSys("fstat");
    if (!S_ISREG(info_.st_mode)) return Fail(Code::kFailedPrecondition, "has changed meanwhile");
    // A copy, because the walk continues to other directories.
    directory_.reset(::fcntl(change.lower, F_DUPFD_CLOEXEC, 3));
    if (!directory_) return FailSys("dup");
    std::string temporary = ".atoll-commit-" + NewUuid(false);
    ATOLL_ASSIGN(to_, sys::OpenAt(directory_.get(), temporary,
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    temporary_ = std::move(temporary);
    return {};
  }

  // Copies a piece and skips holes. Returns false once the file has its name.
  Result<bool> Step() {
    if (at_ < info_.st_size) {
      const off_t data = ::lseek(from_.get(), at_, SEEK_DATA);
      if (data < 0 && errno != ENXIO) return FailSys("read");
      at_ = data < 0 ? info_.st_size : data;
    }
    if (at_ < info_.st_size) {
      if (::lseek(to_.get(), at_, SEEK_SET) != at_) return FailSys("seek");
      const ssize_t n = ::sendfile(to_.get(), from_.get(), &at_, kPiece);
      if (n < 0) return FailSys("write");
      if (n > 0) return true;
    }
    ATOLL_TRY(Finish());
    return false;
  }

 private:
  Status Finish() {
    struct stat now, made;
    if (::fstat(from_.get(), &now) != 0 || ::fstat(to_.get(), &made) != 0) return FailSys("fstat");
    if (now.st_size != info_.st_size || now.st_mtim.tv_sec != info_.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != info_.st_mtim.tv_nsec) {
      return Fail(Code::kFailedPrecondition, "was written to while it was copied");
    }
    if (::ftruncate(to_.get(), info_.st_size) != 0) return FailSys("truncate");
    if ((made.st_uid != now.st_uid || made.st_gid != now.st_gid) &&
        ::fchown(to_.get(), now.st_uid, now.st_gid) != 0) {
      return FailSys("chown");
    }
    if (::fchmod(to_.get(), now.st_mode & 07777) != 0) return FailSys("chmod");
    const timespec times[2] = {{0, UTIME_OMIT}, info_.st_mtim};
    if (::futimens(to_.get(), times) != 0) return FailSys("utimens");
    if (::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0) {
      return FailSys("rename");
    }
    temporary_.clear();
    return {};
  }

  UniqueFd from_, to_, directory_;
  std::string name_, temporary_;
  struct stat info_ {};
  off_t at_ = 0;
};

class Commit : public std::enable_shared_from_this<Commit> {
 public:
  Commit(std::shared_ptr<Exchange> exchange, std::shared_ptr<KeptOverlays> overlays, Actor actor,
         Settle settle)
      : exchange_(std::move(exchange)),
        overlays_(std::move(overlays)),
        actor_(std::move(actor)),
        settle_(std::move(settle)) {}

  // Works for some milliseconds. Returns false once everything is done.
  bool Work() {
    const FileIdentity as(*actor_);
    const int64_t end = MonotonicMicros() + kSliceUs;
    do {
      auto more = Step();
      if (more && *more) continue;
      const Status sealed = Seal();
      // Destroyed here, while the identity is still the right one.
      copy_.reset();
      settle_([self = shared_from_this(), done = more ? sealed : Fail(more.error())] {
        self->Answer(done);
      });
      return false;
    } while (MonotonicMicros() < end);
    return true;
  }

 private:
  const KeptOverlay& overlay() const { return overlays_->list[at_]; }

  // Returns false at the end.
  Result<bool> Step() {
    if (overlays_->gone) return Fail(Code::kFailedPrecondition, "the session has ended");
    if (removal_) {
      ATOLL_ASSIGN(const bool done, removal_->Continue(0));
      if (!done) return true;
      removal_.reset();
      if (change_.kind == Kind::kDeleted) return true;
      // The old file in its place has been removed.
      change_.kind = Kind::kAdded;
      ATOLL_TRY(Apply());
      return true;
    }
    if (copy_) {
      ATOLL_ASSIGN(const bool more, copy_->Step());
      if (!more) copy_.reset();
      return true;
    }
    if (!changes_) {
      if (at_ == overlays_->list.size()) return false;
      ATOLL_ASSIGN(changes_, SessionChanges::Begin(overlay()));
    }
    ATOLL_ASSIGN(const SessionChanges::Step step, changes_->Next(&change_));
    if (step == SessionChanges::Step::kEnd) {
      changes_.reset();
      ++at_;
    }
    if (step != SessionChanges::Step::kChange) return true;
    ++counts_[static_cast<size_t>(change_.kind)];
    ATOLL_TRY(Apply());
    return true;
  }

  Status Apply() {
    if (change_.lower < 0) return Fail(Code::kFailedPrecondition, "its directory has gone");
    const bool stays = change_.kind == Kind::kModified && S_ISDIR(change_.now.st_mode) &&
                       S_ISDIR(change_.was.st_mode);
    const bool goes = change_.kind == Kind::kDeleted ||
                      (change_.kind == Kind::kModified && !stays &&
                       (S_ISDIR(change_.was.st_mode) || S_ISDIR(change_.now.st_mode)));
    if (goes) {
      ATOLL_TRY(Remove());
      if (removal_ || change_.kind == Kind::kDeleted) return {};
    }
    if (S_ISDIR(change_.now.st_mode)) return Directory(stays);
    if (S_ISLNK(change_.now.st_mode)) return Link();
    // Sockets and pipes are skipped: without the processes that hold their other ends they are
    // useless.
    if (!S_ISREG(change_.now.st_mode)) return {};
    copy_.emplace();
    return copy_->Begin(change_);
  }

  // unlinkat fails with EBUSY for a mount point, so the removal never enters a mount.
  Status Remove() {
    const int flags = S_ISDIR(change_.was.st_mode) ? AT_REMOVEDIR : 0;
    if (::unlinkat(change_.lower, change_.name.c_str(), flags) == 0 || errno == ENOENT) return {};
    if (flags == 0 || (errno != ENOTEMPTY && errno != EEXIST)) return FailSys("delete");
    removal_in_.reset(::fcntl(change_.lower, F_DUPFD_CLOEXEC, 3));
    if (!removal_in_) return FailSys("dup");
    removal_.emplace(removal_in_.get(), change_.name);
    return {};
  }

  Status Directory(bool stays) {
    ATOLL_ASSIGN(const UniqueFd made,
                 stays ? sys::OpenBeneath(change_.lower, change_.name, O_RDONLY | O_DIRECTORY)
                       : MakeOwnDirectory(change_.lower, change_.name, 0700));
    struct stat info;
    if (::fstat(made.get(), &info) != 0) return FailSys("fstat");
    if (stays && (info.st_ino != change_.was.st_ino || info.st_dev != change_.was.st_dev)) {
      return Fail(Code::kFailedPrecondition, "was replaced meanwhile");
    }
    if ((info.st_uid != change_.now.st_uid || info.st_gid != change_.now.st_gid) &&
        ::fchown(made.get(), change_.now.st_uid, change_.now.st_gid) != 0) {
      return FailSys("chown");
    }
    mode_t mode = change_.now.st_mode & 07777;
    if ((mode & S_IRWXU) != S_IRWXU) {
      if (sealed_.size() == kMaxSealed) {
        return Fail(Code::kResourceExhausted, "more than 65536 directories that are read-only");
      }
      sealed_.push_back({at_, change_.path, mode});
      mode |= S_IRWXU;
    }
    return ::fchmod(made.get(), mode) == 0 ? Status() : FailSys("chmod");
  }

  Status Link() {
    std::array<char, 4096> target{};
    const ssize_t n =
        ::readlinkat(change_.upper, change_.name.c_str(), target.data(), target.size() - 1);
    if (n <= 0) return FailSys("readlink");
    const std::string temporary = ".atoll-commit-" + NewUuid(false);
    if (::symlinkat(target.data(), change_.lower, temporary.c_str()) != 0) {
      return FailSys("symlink");
    }
    const timespec times[2] = {{0, UTIME_OMIT}, change_.now.st_mtim};
    struct stat made;
    Status done;
    if (::fstatat(change_.lower, temporary.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) {
      done = FailSys("stat");
    } else if ((made.st_uid != change_.now.st_uid || made.st_gid != change_.now.st_gid) &&
               ::fchownat(change_.lower, temporary.c_str(), change_.now.st_uid, change_.now.st_gid,
                          AT_SYMLINK_NOFOLLOW) != 0) {
      done = FailSys("chown");
    } else if (::utimensat(change_.lower, temporary.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
      done = FailSys("utimens");
    } else if (::renameat(change_.lower, temporary.c_str(), change_.lower, change_.name.c_str()) !=
               0) {
      done = FailSys("rename");
    }
    if (!done) ::unlinkat(change_.lower, temporary.c_str(), 0);
    return done;
  }

  // Deepest first, because some make others inaccessible.
  Status Seal() {
    Status all;
    for (; !sealed_.empty(); sealed_.pop_back()) {
      const Sealed& last = sealed_.back();
      const auto directory = sys::OpenBeneath(overlays_->list[last.overlay].lower.get(), last.path,
                                              O_RDONLY | O_DIRECTORY);
      if (!directory) {
        all = Fail(directory.error());
      } else if (::fchmod(directory->get(), last.mode) != 0) {
        all = FailSys("chmod " + last.path);
      }
    }
    return all;
  }

  void Answer(const Status& done) {
    overlays_->committing = false;
    if (!done) {
      const bool known = at_ < overlays_->list.size();
      std::string message = "commit";
      if (known) message += " " + overlay().path + "/" + change_.path;
      message +=
          ": " + done.error().message() + "; what was done before is done, ask again for the rest";
      return exchange_->RespondError(500, "RUNTIME_ERROR", message);
    }
    std::string answer = "{\"added\":";
    AppendJsonInteger(&answer, counts_[static_cast<size_t>(Kind::kAdded)]);
    answer.append(",\"modified\":");
    AppendJsonInteger(&answer, counts_[static_cast<size_t>(Kind::kModified)]);
    answer.append(",\"deleted\":");
    AppendJsonInteger(&answer, counts_[static_cast<size_t>(Kind::kDeleted)]);
    answer.push_back('}');
    exchange_->RespondJson(200, answer);
  }

  struct Sealed {
    size_t overlay;
    std::string path;
    mode_t mode;
  };
  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<KeptOverlays> overlays_;
  const Actor actor_;
  const Settle settle_;
  size_t at_ = 0;
  std::optional<SessionChanges> changes_;
  SessionChange change_;
  UniqueFd removal_in_;
  std::optional<TreeRemoval> removal_;
  std::optional<FileCopy> copy_;
  std::vector<Sealed> sealed_;
  std::array<int64_t, 3> counts_{};
};

}  // namespace

void CommitSession(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                   std::shared_ptr<KeptOverlays> overlays, Actor actor, Settle settle) {
  if (std::exchange(overlays->committing, true)) {
    return exchange->RespondError(503, "SERVICE_UNAVAILABLE", "a commit is under way");
  }
  auto commit =
      std::make_shared<Commit>(exchange, std::move(overlays), std::move(actor), std::move(settle));
  if (commit->Work()) loop->Slice([commit] { return commit->Work(); });
}

}  // namespace atl::execd
