#include "runtime/base/tree_removal.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl {
namespace {

// Descriptors that one removal holds at most. Trees of real images are a dozen levels deep.
constexpr size_t kMaxOpen = 32;

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
    // The last one: `name_` is a prefix of all others, and is to be seen until they are gone.
    const std::string next = *left_.rbegin();
    left_.erase(next);
    if (::unlinkat(top_, next.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && errno != EPERM) return FailSys("unlink " + next);
    return Enter(top_, next);
  }
  errno = 0;
  // Names go as they are read, so a directory of ten million needs no list of them. readdir(3)
  // leaves open whether entries that were not there at the start are seen; here none are added.
  const dirent* entry = ::readdir(open_.back().entries.get());  // NOLINT(concurrency-mt-unsafe)
  if (entry != nullptr) return RemoveEntry(*entry);
  if (errno != 0) return FailSys("readdir in " + name_);
  return Leave();
}

Status TreeRemoval::Enter(int parent, const std::string& name) {
  auto directory = sys::OpenAt(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!directory && directory.error().error_number() == ENOENT) return {};
  if (!directory) return Fail(std::move(directory).error());
  Level level{name, std::unique_ptr<DIR, CloseDirectory>(::fdopendir(directory->get()))};
  if (!level.entries) return FailSys("fdopendir " + name);
  [[maybe_unused]] const int owned_by_entries = directory->release();
  open_.push_back(std::move(level));
  return {};
}

Status TreeRemoval::Leave() {
  const std::string name = std::move(open_.back().name);
  open_.pop_back();
  const int parent = open_.empty() ? top_ : ::dirfd(open_.back().entries.get());
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return FailSys("rmdir " + name);
  }
  return {};
}

Status TreeRemoval::RemoveEntry(const dirent& entry) {
  const std::string_view name(entry.d_name);
  if (name == "." || name == "..") return {};
  const int directory = ::dirfd(open_.back().entries.get());
  if (entry.d_type != DT_DIR) {
    if (::unlinkat(directory, entry.d_name, 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR && (errno != EPERM || entry.d_type != DT_UNKNOWN)) {
      return FailSys("unlink " + std::string(name));
    }
  }
  if (::unlinkat(directory, entry.d_name, AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) return FailSys("rmdir " + std::string(name));
  if (open_.size() < kMaxOpen) return Enter(directory, std::string(name));
  for (;;) {
    const std::string aside = name_ + "." + std::to_string(moved_++);
    if (::renameat2(directory, entry.d_name, top_, aside.c_str(), RENAME_NOREPLACE) == 0) {
      left_.insert(aside);
      return {};
    }
    // One of an earlier removal that did not come to its end.
    if (errno != EEXIST) return FailSys("rename " + std::string(name) + " to " + aside);
    left_.insert(aside);
  }
}

Status sys::RemoveTree(int dirfd, const std::string& name) {
  TreeRemoval removal(dirfd, name);
  ATOLL_TRY(removal.Continue(INT64_MAX));
  return {};
}

}  // namespace atl
