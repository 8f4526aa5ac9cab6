// Starts a program: clone3 with CLONE_VM | CLONE_VFORK directly into its cgroup leaf. Nothing is
// copied, so the cost does not grow with execd's memory. The child uses execd's memory and stack
// until its execve.
//
// The OOM killer does not kill such a child, because that would kill execd, although the child is
// the process that allocates (arguments, a stack). In a sandbox whose memory is full of files, only
// the entrypoint is left to kill. With `own_memory` the child is the victim.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/leaf.h"
#include "execd/core/users.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

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
  uint64_t pass = 0;             // the gate's pass, without which the filter refuses clone3
  int cpus = 0;                  // how many CPUs it may use; 0: all
  int score = -1;                // execd's own oom_score_adj file (wire::kExecdScoreFd); -1: none
  bool spared = false;           // the OOM killer takes other processes first
  bool own_memory = false;       // a copy of execd's memory, for a sandbox that is nearly full
  bool controlling_tty = false;  // a new session with stdio[0] as its controlling terminal
};

// Largest argument that the kernel accepts (MAX_ARG_STRLEN without its NUL).
inline constexpr size_t kMaxArgument = (128 << 10) - 1;

// Appends `script` to the arguments of a shell, which are complete then: as the argument of -c, or,
// if it is larger than an argument may be, as descriptor 3, which the script does not have. The
// returned descriptor must stay open until the shell has started; it may be empty.
Result<UniqueFd> AddScript(std::string_view script, SpawnSpec* spec);

// Returns the child's pid once its execve has succeeded. The child leads a new process group. On
// failure error_number() is the errno, and the message names the step ("exec /bin/x: No such
// file…"). Call with all signals blocked.
Result<pid_t> Spawn(const SpawnSpec& spec);

// Makes the program's user the owner of its pipes. execd creates them as root, and a program that
// opens /dev/stdout opens its pipe again by name. runc does the same. Devices stay unchanged.
void GivePipes(std::span<const int> stdio, const Identity& user);

}  // namespace atl::execd
