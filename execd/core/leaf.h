// A cgroup leaf for each command, beneath the one directory of cgroup v2 that the spawner handed
// down as a descriptor. The leaf is what makes "kill the command" mean every descendant, double
// forks and setsid included, and an out-of-memory kill end one command instead of the sandbox.
//
// Leaves are entered by CLONE_INTO_CGROUP: writing cgroup.procs waits for an RCU grace period (4 to
// 15 ms). Only what somebody else has cloned is moved that way. An emptied leaf is used again,
// unless it was killed: one command after the other costs no mkdir and no rmdir, which each cost
// the kernel 0.1 ms more than they take. Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

struct Leaf {
  std::string name;
  UniqueFd dir;
  int64_t oom_kills_before = 0;  // the counter survives from one use to the next
  bool killed = false;
};

class LeafPool {
 public:
  // `root` is the subtree's directory, or -1: then there are no leaves. Borrowed.
  LeafPool(EventLoop* loop, int root);
  LeafPool(const LeafPool&) = delete;
  LeafPool& operator=(const LeafPool&) = delete;

  // An empty leaf; null if there are none or none can be made.
  std::unique_ptr<Leaf> Take();
  // Makes `count` spares: for the entrypoint and the first command, while nobody waits.
  void Prepare(int count);
  // Gives a leaf back. Processes may still be in it: it is looked at again by Collect.
  void Return(std::unique_ptr<Leaf> leaf);
  // Looks for returned leaves that have become empty; call when processes have been reaped.
  void Collect();

  // Whether no process is in it.
  static bool Empty(const Leaf& leaf);
  // Whether more than one is.
  static bool HasSeveral(const Leaf& leaf);
  // Moves a process, with all its threads; its children stay where they are. Waits, see above.
  static Status Move(const Leaf& leaf, pid_t pid);
  // Kills every process in the leaf, atomically against forks.
  static void Kill(Leaf* leaf);
  // True if a process of the leaf was killed for memory since Take. Only where the v2 memory
  // controller is on.
  static bool OutOfMemory(const Leaf& leaf);
  // How many were, in a group and those beneath it.
  static int64_t OomKillsIn(int directory);

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
