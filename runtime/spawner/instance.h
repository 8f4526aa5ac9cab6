// The number of this daemon among the at most eight of a host. It keeps id ranges, cgroups, links,
// addresses and tables of two daemons apart.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

struct Instance {
  uint32_t number = 0;
  UniqueFd lock;      // held for life; the kernel releases it if we are killed
  bool anew = false;  // no spawner of this run directory has had this number before
};

// Hands the lock to the program that this process is about to execute, still held. Without that,
// another spawner could take over the sandboxes between the two programs, and their exit codes
// would be lost. The environment carries it, which an older program ignores.
Status HandOver(const Instance& instance);

// "atoll0"
std::string GroupName(uint32_t instance);

// Returns the number that `run_dir` had before, unless another spawner holds it. Else a number that
// nobody has had since boot. Else a number that nobody holds and whose sandboxes are dead, or can
// never be adopted because their run directory is gone. Sandboxes::Adopt deals with what the last
// owner left in cgroups (below `cgroup_base`, under the name of GroupName). kAlreadyExists: another
// spawner serves `run_dir`. `inherits`: only the number that `run_dir` had before will do, else
// kNotFound.
Result<Instance> ClaimInstance(const std::string& run_dir, const std::string& cgroup_base,
                               bool inherits);

}  // namespace atl::spawner
