// The cgroups of the sandbox in the machine, as cgroup/tree.h lays them out on a v2 host.
#pragma once

#include <cstdint>

#include "cgroup/tree.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::guest {

inline constexpr char kSandboxGroup[] = "sandbox";

struct Groups {
  cgroup::Tree tree;
  UniqueFd execd;       // the leaf of process 1
  UniqueFd commands;    // the group of commands
  UniqueFd name_space;  // a cgroup namespace whose root is the sandbox's group
};

// Makes them, with the limit of processes; 0: none. Call once.
Result<Groups> MakeGroups(uint64_t pids);

}  // namespace atl::guest
