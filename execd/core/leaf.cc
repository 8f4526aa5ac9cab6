#include "execd/core/leaf.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "execd/core/numbers.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

constexpr size_t kMaxSpares = 4;

// Copies the subtree's memory limit to the leaf, because runtimes read the limit of their own
// cgroup only (JDK 17). The limit of the subtree applies anyway. Reads the limit again afterwards:
// when the limits change, the spawner writes the leaves' limits, and this write may come later.
void CopyLimit(int root, int leaf) {
  constexpr const char* kFile = "memory.max";
  auto limit = sys::ReadFileAt(root, kFile, 64);
  while (limit && sys::WriteFileAt(leaf, kFile, *limit)) {
    auto again = sys::ReadFileAt(root, kFile, 64);
    if (!again || *again == *limit) return;
    limit = std::move(again);
  }
}

}  // namespace

std::optional<int64_t> LeafPool::OomKillsIn(int directory) {
  const auto text = sys::ReadFileAt(directory, "memory.events", 4096);
  return text ? KeyNumber(*text, "oom_kill") : std::nullopt;
}

LeafPool::LeafPool(EventLoop* loop, int root) : loop_(*loop), root_(root) {}

std::unique_ptr<Leaf> LeafPool::Make() {
  auto leaf = std::make_unique<Leaf>();
  leaf->name = "c" + std::to_string(next_++);
  if (::mkdirat(root_, leaf->name.c_str(), 0755) != 0) {
    LogLine(LogLevel::kWarning, "command leaf not made").Add(SysError("mkdir " + leaf->name));
    return nullptr;
  }
  auto dir = sys::OpenAt(root_, leaf->name, O_RDONLY | O_DIRECTORY);
  if (!dir) {
    ::unlinkat(root_, leaf->name.c_str(), AT_REMOVEDIR);
    return nullptr;
  }
  leaf->dir = std::move(*dir);
  // The file does not exist without the memory controller (hybrid hosts). The OOM killer then kills
  // single processes.
  [[maybe_unused]] const auto grouped = sys::WriteFileAt(leaf->dir.get(), "memory.oom.group", "1");
  CopyLimit(root_, leaf->dir.get());
  return leaf;
}

std::unique_ptr<Leaf> LeafPool::Take() {
  if (root_ < 0) return nullptr;
  if (spares_.empty()) Collect();
  if (spares_.empty()) return Make();
  std::unique_ptr<Leaf> leaf = std::move(spares_.back());
  spares_.pop_back();
  return leaf;
}

void LeafPool::Prepare(int count) {
  for (; root_ >= 0 && count > 0; --count) {
    if (auto leaf = Make()) spares_.push_back(std::move(leaf));
  }
}

bool LeafPool::Empty(const Leaf& leaf) {
  const auto events = sys::ReadFileAt(leaf.dir.get(), "cgroup.events", 4096);
  return events && events->find("populated 0") != std::string::npos;
}

bool LeafPool::HasSeveral(const Leaf& leaf) {
  const auto list = sys::ReadFileAt(leaf.dir.get(), "cgroup.procs", 4096);
  // The read fails only if the list is longer.
  return !list || std::count(list->begin(), list->end(), '\n') > 1;
}

void LeafPool::Return(std::unique_ptr<Leaf> leaf) {
  if (!leaf) return;
  returned_.push_back(std::move(leaf));
  Collect();
  Watch();
}

void LeafPool::Collect() {
  for (size_t i = 0; i < returned_.size();) {
    if (!Empty(*returned_[i])) {
      ++i;
      continue;
    }
    std::unique_ptr<Leaf> leaf = std::move(returned_[i]);
    returned_.erase(returned_.begin() + static_cast<std::ptrdiff_t>(i));
    // A killed leaf is not used again. On 6.18 a child cloned into a cgroup that was killed once is
    // killed at birth, because the fork compares the kill count of its parent's cgroup with that of
    // its own.
    if (spares_.size() < kMaxSpares && !leaf->killed) {
      leaf->oom_kills_before = LeafPool::OomKillsIn(leaf->dir.get());
      spares_.push_back(std::move(leaf));
    } else if (::unlinkat(root_, leaf->name.c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY) {
      returned_.push_back(std::move(leaf));
      return;
    }
  }
}

// Polls returned leaves while there are any: the last process of a leaf may be no child of execd,
// because a subreaper in the sandbox may have adopted it.
void LeafPool::Watch() {
  if (timer_ || returned_.empty()) return;
  timer_ = true;
  loop_.After(2'000'000, [this] {
    timer_ = false;
    Collect();
    Watch();
  });
}

Status LeafPool::Move(const Leaf& leaf, pid_t pid) {
  return sys::WriteFileAt(leaf.dir.get(), "cgroup.procs", std::to_string(pid));
}

void LeafPool::Kill(Leaf* leaf) {
  leaf->killed = true;
  const auto killed = sys::WriteFileAt(leaf->dir.get(), "cgroup.kill", "1");
  if (!killed) LogLine(LogLevel::kError, "command not killed").Add(killed.error());
}

bool LeafPool::OutOfMemory(const Leaf& leaf) {
  const auto kills = OomKillsIn(leaf.dir.get());
  return kills && leaf.oom_kills_before && *kills > *leaf.oom_kills_before;
}

}  // namespace atl::execd
