#include "runtime/spawner/store/trash.h"

#include <fcntl.h>

#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/base/thread.h"
#include "runtime/spawner/store/projects.h"

namespace atl::spawner {
namespace {

// Time for one tree before the next: some hundred files.
constexpr int64_t kPieceUs = 10'000;

}  // namespace

Trash::Trash(int directory, size_t threads) : directory_(directory) {
  for (size_t i = 0; i < threads; ++i) {
    auto thread = StartThread("trash", [this] { Work(); });
    if (!thread) {
      LogLine(LogLevel::kWarning, "trash is emptied by fewer threads")
          .Add("threads", static_cast<uint64_t>(i))
          .Add(thread.error());
      return;
    }
    threads_.push_back(std::move(*thread));
  }
}

void Trash::Look() {
  auto names = sys::ListDir(directory_);
  if (!names) {
    LogLine(LogLevel::kError, "cannot list the trash").Add(names.error());
    return;
  }
  std::unique_lock lock(mutex_);
  for (std::string& name : *names) {
    const std::string tree = name.substr(0, name.find('.'));
    const auto [found, added] = trees_.try_emplace(tree, TreeRemoval(directory_, tree));
    // Also for a known tree, which may be done this moment, with this another of the same name. A
    // name that is listed twice costs one look.
    if (!added || name != tree) found->second.more.insert(std::move(name));
  }
  changed_.notify_all();
  while (threads_.empty() && DoPiece(lock)) {
  }
}

void Trash::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

std::map<std::string, Trash::Tree>::iterator Trash::Next() {
  auto next = trees_.end();
  for (auto tree = trees_.begin(); tree != trees_.end(); ++tree) {
    if (tree->second.taken) continue;
    if (next == trees_.end() || tree->second.had_us < next->second.had_us) next = tree;
  }
  return next;
}

void Trash::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (DoPiece(lock)) continue;
    if (finishing_ && trees_.empty()) return;
    changed_.wait(lock);
  }
}

bool Trash::DoPiece(std::unique_lock<std::mutex>& lock) {
  const auto next = Next();
  if (next == trees_.end()) return false;
  Tree& tree = next->second;
  tree.taken = true;
  for (const std::string& name : std::exchange(tree.more, {})) {
    tree.removal.Add(name);
    tree.begun = false;
  }
  lock.unlock();
  const int64_t began_us = SystemClock().BootMicros();
  const bool over = Continue(next->first, tree);
  lock.lock();
  tree.taken = false;
  tree.had_us += SystemClock().BootMicros() - began_us;
  if (!over || !tree.more.empty()) return true;
  trees_.erase(next);
  if (finishing_) changed_.notify_all();
  return true;
}

bool Trash::Continue(const std::string& name, Tree& tree) const {
  if (!std::exchange(tree.begun, true)) {
    // Before the deletion, because an id with nothing charged to it is given to the next owner.
    if (auto top = sys::OpenAt(directory_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
      ForgetProject(top->get());
    }
  }
  const auto done = tree.removal.Continue(SystemClock().BootMicros() + kPieceUs);
  if (done) return *done;
  // The tree stays, and is tried again when something else is thrown away.
  LogLine(LogLevel::kError, "cannot delete").Add("name", name).Add(done.error());
  return true;
}

}  // namespace atl::spawner
