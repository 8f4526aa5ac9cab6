// Starts the first process of an isolated session: namespaces, mounts, rights, and an execd in
// them. The spawner does so for sandboxes of namespaces, and process 1 of a virtual machine for its
// own.
#pragma once

#include <limits.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cgroup/tree.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/rules/seccomp.h"
#include "runtime/wire/request.h"
#include "runtime/wire/session.h"

namespace atl::spawner {

// Input of the first process. Descriptors stay the caller's.
struct SessionParts {
  const wire::MakeSession* message = nullptr;
  const BpfProgram* filter = nullptr;  // BuildSessionFilter
  int program = -1;                    // execd's file; borrowed
  bool cgroup_v2 = false;              // false: v1 cgroups, with the v2 hierarchy beside them
  uint64_t capabilities = 0;           // those of the sandbox
  uint64_t nofile = 0;                 // soft and hard limit of open files; 0: the usual ones
  uid_t base = 0;                      // the sandbox's root, as this kernel counts
  uid_t execd = 0;                     // execd's user, likewise
  UniqueFd user_namespace;             // invalid: the sandbox has none of its own
  UniqueFd store;                      // a detached mount of the session's uppers, if it has any
  // Set by MakeSessionGroup.
  UniqueFd leaf, commands, cgroup_namespace;
  std::vector<UniqueFd> tasks, command_tasks, accounts;
};

// Makes the user namespace of a session that is mapped. `root`: gets the id of its root, as this
// kernel counts.
Result<UniqueFd> MakeSessionUserNamespace(uid_t base, const wire::SessionUser& user, uid_t* root);

// The outcome of StartSession, as its process reports it in one write to a pipe. `text` is empty if
// that process was killed.
inline constexpr size_t kMaxSessionReport = PIPE_BUF;
std::string EncodeOutcome(const Status& started);
Status DecodeOutcome(const std::string& text);

// Returns the session's cgroup, below the sandbox's own run/, so that the sandbox's limits, freezer
// and end hold for the session too.
std::string SessionGroup(const std::string& sandbox, uint32_t number);

// Returns how many mounts of the session need an upper directory of SessionParts::store.
size_t CountOverlays(const wire::SessionSpec& spec);
cgroup::Limits LimitsOf(const wire::SessionTerms& terms);
// Makes the session's cgroup with its limits, for the user `parts->execd`. `sandbox`: the group of
// the sandbox.
Status MakeSessionGroup(const cgroup::Tree& cgroups, const std::string& sandbox,
                        SessionParts* parts);

// Call in a process of its own, which is in the sandbox's namespaces afterwards. `sandbox`: a pidfd
// of the sandbox's process 1. The caller itself ends here if the sandbox ends. The process that
// returns, and a short-lived one, are children of the caller's parent; the session's first process
// is a child of the sandbox's.
Status StartSession(const SessionParts& parts, int sandbox);

}  // namespace atl::spawner
