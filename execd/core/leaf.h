// One cgroup leaf for each command, in the cgroup v2 directory that the spawner has handed down as
// a descriptor. A leaf includes every descendant, even after a double fork or setsid. So killing
// the leaf kills the whole command, and the OOM killer ends one command instead of the sandbox.
//
// A child enters its leaf by CLONE_INTO_CGROUP, because a write to cgroup.procs waits for an RCU
// grace period (4 to 15 ms). Only processes that another process has cloned are moved by
// cgroup.procs. An empty leaf is used again unless it was killed: mkdir and rmdir each cost the
// kernel 0.1 ms beyond the call itself.
//
// Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

struct Leaf {
  std::string name;
  UniqueFd dir;
  // Value of the counter at Take; a reused leaf keeps its counter. Nothing: not known.
  std::optional<int64_t> oom_kills_before = 0;
  bool killed = false;
};

class LeafPool {
 public:
  // `root` is the directory of the subtree, borrowed, or -1 for no leaves.
  LeafPool(EventLoop* loop, int root);
  LeafPool(const LeafPool&) = delete;
  LeafPool& operator=(const LeafPool&) = delete;

  // Returns an empty leaf, or null if none can be made.
  std::unique_ptr<Leaf> Take();
  // Makes `count` leaves in advance, for the entrypoint and the first command, while no request
  // waits.
  void Prepare(int count);
  // Returns a leaf to the pool. It may still hold processes; Collect looks at it again.
  void Return(std::unique_ptr<Leaf> leaf);
  // Finds returned leaves that have become empty. Call when processes have been reaped.
  void Collect();

  // Returns true if no process is in the leaf.
  static bool Empty(const Leaf& leaf);
  // Returns true if more than one process is in the leaf.
  static bool HasSeveral(const Leaf& leaf);
  // Moves a process with all its threads. Its children stay where they are. Blocks for an RCU grace
  // period, see above.
  static Status Move(const Leaf& leaf, pid_t pid);
  // Kills every process in the leaf, atomically against forks.
  static void Kill(Leaf* leaf);
  // Returns true if the OOM killer has killed a process of the leaf since Take. Requires the v2
  // memory controller.
  static bool OutOfMemory(const Leaf& leaf);
  // Returns the number of OOM kills in a cgroup and its descendants. Nothing without the memory
  // controller (hybrid hosts), and if the kernel does not tell.
  static std::optional<int64_t> OomKillsIn(int directory);

 private:
  std::unique_ptr<Leaf> Make();
  void Watch();

  EventLoop& loop_;
  int root_;
  uint64_t next_ = 0;
  std::vector<std::unique_ptr<Leaf>> spares_;
  std::vector<std::unique_ptr<Leaf>> returned_;
  bool timer_ = false;
};

}  // namespace atl::execd
