#include "runtime/base/tree_removal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl {
namespace {

// Most descriptors of one removal. Trees of real images are a dozen levels deep.
constexpr size_t kMaxOpen = 32;
// Buffer for entries. readdir(3) would use 32 KiB for each level.
constexpr size_t kEntries = 4096;

}  // namespace

Result<bool> TreeRemoval::Continue(int64_t until_us) {
  do {
    if (open_.empty() && left_.empty()) return true;
    ATOLL_TRY(Step());
  } while (SystemClock().BootMicros() < until_us);
  return open_.empty() && left_.empty();
}

Status TreeRemoval::Step() {
  if (open_.empty()) {
    // The last name in order goes first: `name_` is a prefix of all others and must stay visible
    // until they are gone.
    const std::string next = *left_.rbegin();
    left_.erase(next);
    if (::unlinkat(top_, next.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return FailSys("unlink " + next);
    return Enter(top_, next);
  }
  Level& level = open_.back();
  if (level.at == level.end) {
    // Names are removed as they are read, so a directory with ten million entries needs no list.
    // The kernel does not define whether entries added meanwhile are listed.
    const long n = ::syscall(SYS_getdents64, level.directory.get(), level.entries.get(), kEntries);
    // ENOENT: another process has removed it.
    if (n < 0 && errno != ENOENT) return FailSys("read directory " + level.name);
    if (n <= 0) return Leave();
    level.at = 0;
    level.end = static_cast<size_t>(n);
  }
  const auto* entry = reinterpret_cast<const dirent64*>(level.entries.get() + level.at);
  level.at += entry->d_reclen;
  return RemoveEntry(*entry);
}

Status TreeRemoval::Enter(int parent, const std::string& name) {
  auto directory = sys::OpenAt(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory && directory.error().error_number() == ENOENT) return {};
  if (!directory) return Fail(std::move(directory).error());
  open_.push_back({.name = name,
                   .directory = std::move(*directory),
                   .entries = std::make_unique_for_overwrite<char[]>(kEntries)});
  return {};
}

Status TreeRemoval::Leave() {
  Level& level = open_.back();
  const int parent = open_.size() == 1 ? top_ : open_[open_.size() - 2].directory.get();
  if (::unlinkat(parent, level.name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    const bool moved = open_.size() == 1 && std::exchange(again_, false);
    if (!moved || (errno != ENOTEMPTY && errno != EEXIST)) return FailSys("rmdir " + level.name);
    if (::lseek(level.directory.get(), 0, SEEK_SET) != 0) return FailSys("lseek " + level.name);
    level.at = level.end = 0;
    return {};
  }
  open_.pop_back();
  return {};
}

Status TreeRemoval::RemoveEntry(const dirent64& entry) {
  const std::string_view name(entry.d_name);
  if (name == "." || name == "..") return {};
  const int directory = open_.back().directory.get();
  if (entry.d_type != DT_DIR) {
    if (::unlinkat(directory, entry.d_name, 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && (errno != EPERM || entry.d_type != DT_UNKNOWN)) {
      return FailSys("unlink " + std::string(name));
    }
  }
  if (::unlinkat(directory, entry.d_name, AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) return FailSys("rmdir " + std::string(name));
  if (open_.size() >= kMaxOpen) {
    ATOLL_ASSIGN(const bool moved, MoveUp(directory, entry.d_name));
    if (moved) return {};
  }
  return Enter(directory, std::string(name));
}

// Returns false if the directory stays where it is.
Result<bool> TreeRemoval::MoveUp(int directory, const char* name) {
  if (prefix_.empty()) {
    prefix_ = ".atoll-removal";
    for (const char c : sys::RandomBytes(8)) {
      prefix_.append("-").append(std::to_string(static_cast<unsigned char>(c)));
    }
  }
  const std::string up = prefix_ + "." + std::to_string(moved_++);
  if (::renameat2(directory, name, open_.front().directory.get(), up.c_str(), RENAME_NOREPLACE) ==
      0) {
    again_ = true;
    return true;
  }
  // A directory of a lower layer cannot be moved through an overlay. No layer is deeper than 256.
  if (errno == ENOENT || errno == EXDEV) return false;
  return Fail(SysError("rename " + std::string(name) + " to " + up));
}

Status sys::RemoveTree(int dirfd, const std::string& name) {
  TreeRemoval removal(dirfd, name);
  ATOLL_TRY(removal.Continue(INT64_MAX));
  return {};
}

}  // namespace atl
