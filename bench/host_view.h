// What the host's kernel says about a daemon and its sandboxes, from outside of both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// Processes whose argv[0] is, or ends in, `name` and that have `argument`.
Result<std::vector<pid_t>> ProcessesNamed(const std::string& name, const std::string& argument);

// Proportional set size: shared pages are divided among those who share them.
Result<double> PssKib(pid_t pid);

struct Memory {
  double available_kib = 0;  // as the kernel estimates it
  double kernel_kib = 0;     // slab, stacks, page tables, per-CPU memory
};
Result<Memory> ReadMemory();

// Where a running sandbox is on the host.
struct Place {
  pid_t pid = -1;  // its process 1
  std::string cgroup_dir;
  std::string upper_dir;
  std::string link;
};
// All sandboxes that are children of `spawner`.
Result<std::vector<Place>> FindSandboxes(const std::vector<pid_t>& spawner,
                                         const std::string& data_dir);
// Neither process, cgroup, link nor files are left.
bool IsGone(const Place& place);

// What the numbers are numbers of, as an object of JSON: processor, kernel, cgroup version, file
// system of /var/tmp, load averages, and what a CPUID costs, in microseconds: a virtual machine
// leaves itself for each, and the start of each glibc program executes some eighty.
std::string MachineJson();

}  // namespace atl::bench
