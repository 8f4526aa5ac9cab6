#include "runtime/guest/known_files.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::guest {
namespace {

// 2.5 KiB of the host's memory each, of the tier's overhead. The host may allow the file server no
// more than 20,000 descriptors.
constexpr uint64_t kMostFiles = 12'000;
constexpr uint64_t kManyNew = 200;
constexpr int kBusyMs = 100, kQuietMs = 1000;

// Returns the number of inodes in memory.
uint64_t Count() {
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/sys/fs/inode-nr", 64);
  uint64_t count = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), count);
  return count;
}

}  // namespace

KnownFiles::KnownFiles() : own_(Count()), seen_(own_) {}

int KnownFiles::Bound() {
  const uint64_t count = Count();
  const bool learns = count > std::exchange(seen_, count) + kManyNew;
  if (count > own_ + std::max(used_, kMostFiles)) {
    // An inode with cached content is not dropped, so the content goes first. The host has it, too.
    (void)sys::WriteFileAt(AT_FDCWD, "/proc/sys/vm/drop_caches", "3");
    // Those in use stay. More of them are no reason to drop all caches at each look.
    seen_ = Count();
    used_ = seen_ > own_ ? seen_ - own_ + kMostFiles / 8 : 0;
  }
  return learns ? kBusyMs : kQuietMs;
}

}  // namespace atl::guest
