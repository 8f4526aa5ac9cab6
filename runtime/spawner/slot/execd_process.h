// How the first process of a slot or a session becomes execd: its rights, its user, its
// descriptors. These functions run in the memory of the process that cloned it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

// Limits what the kernel counts by user for a sandbox. Call in the process that makes its user
// namespace, and in each that enters it.
Status LimitUsers();
// Sets no new privileges, no core dumps, limits of descriptors, default signals. `nofile`: soft and
// hard limit; 0: the usual ones.
Status LimitProcess(uint64_t nofile);

// Sets `mask` for everything beneath this process, and `more` for execd. `more` passes execve by
// being inheritable, because every program of root's would get what is in the bounding set.
Status SetCapabilities(uint64_t mask, uint64_t more);

// Enters the sandbox's user namespace (a descriptor) as its root, with `capabilities` for
// everything beneath. `more`: for execd alone, which gives it up; 0 or one capability. `sysctls`:
// /proc/sys, to seal the namespace; -1: it is sealed already. /proc must be mounted. Returns the
// process's own oom_score_adj, for execd.
Result<UniqueFd> EnterUserNamespace(int user_namespace, uint64_t pass, int sysctls,
                                    uint64_t capabilities, uint64_t more);

// All borrowed. PlaceDescriptors puts them on the numbers of wire/start.h.
struct ExecdDescriptors {
  int program = -1;  // execd's file
  int gate = -1;
  int control = -1;
  int listener = -1;
  int commands = -1;
  int score = -1;
  std::vector<int> command_tasks;
  std::vector<int> accounts;
};
// Places the descriptors; all others close at execve. First lifts the sources above the targets, so
// that no target overwrites a source. Returns the program of execd.
Result<int> PlaceDescriptors(const ExecdDescriptors& from);
// Executes a slot's or session's first program as `name`, with one flag, or none if `option` is
// null. Does not return if it succeeds. `program`: borrowed.
void ExecuteFirst(int program, const char* name, const char* option);

}  // namespace atl::spawner
