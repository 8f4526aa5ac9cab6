// Starting a program: clone3 with CLONE_VM | CLONE_VFORK straight into its cgroup leaf, so that the
// cost does not grow with execd and nothing is copied; the child borrows our memory and stack until
// it executes. As long as it does the kernel does not kill it for memory (it would kill us), though
// it is the one that asks for it: arguments, a stack. In a sandbox full of files in memory that
// would leave the entrypoint; with memory of its own the child is the victim.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "execd/core/leaf.h"
#include "execd/core/users.h"
#include "runtime/base/result.h"

namespace atl::execd {

struct SpawnSpec {
  std::vector<std::string> programs;  // tried in order, as execvp does with PATH
  std::vector<std::string> argv;
  std::vector<std::string> env;
  const Identity* identity = nullptr;
  int stdio[3] = {-1, -1, -1};
  int report = -1;               // becomes the child's descriptor 3; -1: none
  int cwd = -1;                  // directory; -1: execd's own
  const Leaf* leaf = nullptr;    // null: no leaf
  std::span<const int> tasks;    // v1 "tasks" files to enter
  uint64_t pass = 0;             // of the gate: the filter lets clone3 through with it
  int cpus = 0;                  // how many it may run on; 0: all
  int score = -1;                // execd's own oom_score_adj (wire::kExecdScoreFd); -1: none
  bool spared = false;           // the kernel takes others first when memory is short
  bool own_memory = false;       // a copy of execd's: for a sandbox that is nearly full
  bool controlling_tty = false;  // a session of its own with stdio[0] as its terminal
};

// Returns the child's pid once its execve has succeeded; it leads its own process group. On failure
// error_number() is the errno, the message says which step ("exec /bin/x: No such file…"). Must be
// called with all signals blocked.
Result<pid_t> Spawn(const SpawnSpec& spec);

// Gives a program's pipes to its user: execd, who makes them, is root, and the program opens them
// again by name, as /dev/stdout. runc does so too. Devices stay as they are.
void GivePipes(std::span<const int> stdio, const Identity& user);

}  // namespace atl::execd
