// Which of the host's (at most eight) daemons this is. The number keeps id ranges, cgroups, links,
// addresses and tables of two daemons apart.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

struct Instance {
  uint32_t number = 0;
  UniqueFd lock;      // held for life; released by the kernel if we are killed
  bool anew = false;  // nobody of this run directory has had it before
};

// For the program that this process is about to execute: it finds the lock open and held, so that
// between the two no other spawner can take the sandboxes over (their exit codes would be lost).
// Through the environment, which an older program ignores.
Status HandOver(const Instance& instance);

// "atoll0"
std::string GroupName(uint32_t instance);

// The number that `run_dir` had before, if nobody else holds it; else one that nobody has had since
// boot; else one that nobody holds and whose sandboxes are dead, or can never be adopted again
// because their run directory is gone. What the last owner left in cgroups (below `cgroup_base`,
// where groups are called as GroupName says) is for Sandboxes::Adopt. kAlreadyExists: another
// spawner serves `run_dir`. `inherits`: only the number that `run_dir` had before, or kNotFound.
Result<Instance> ClaimInstance(const std::string& run_dir, const std::string& cgroup_base,
                               bool inherits);

}  // namespace atl::spawner
