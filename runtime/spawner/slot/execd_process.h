// How a process of ours becomes an execd: what it may still do, as whom, and with which
// descriptors. For the child of a slot and that of a session, in the memory of whoever cloned them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// What a sandbox may hold at most of what the kernel counts by user; for whoever makes its user
// namespace, and whoever enters it.
Status LimitUsers();
// No new privileges, no core dumps, descriptors, signals. `nofile`: soft and hard; 0: the usual.
Status LimitProcess(uint64_t nofile);

// Into the sandbox's user namespace (a descriptor), as its root, with `capabilities` for everything
// beneath. `more`: for execd alone, which gives it up; 0 or one of them. `sysctls`: /proc/sys, to
// seal the namespace; -1: it is sealed. /proc must be there; returns the process's own
// oom_score_adj, for execd.
Result<UniqueFd> EnterUserNamespace(int user_namespace, uint64_t pass, int sysctls,
                                    uint64_t capabilities, uint64_t more);

// All borrowed; they land on the numbers of wire/start.h.
struct ExecdDescriptors {
  int gate = -1;
  int control = -1;
  int listener = -1;
  int commands = -1;
  int score = -1;
  std::vector<int> command_tasks;
  std::vector<int> accounts;
};
// Everything else closes at execve. Sources are first lifted above the targets, so that no target
// overwrites a source. Returns execd's own program.
Result<int> PlaceDescriptors(const Host& host, const ExecdDescriptors& from);
// Does not return if it succeeds. `option`: of execd/options.h.
void ExecuteExecd(int program, const char* option);

}  // namespace atl::spawner
