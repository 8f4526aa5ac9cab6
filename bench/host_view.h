// The kernel's own figures about a daemon and its sandboxes, read from outside of both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// Returns the processes whose argv[0] is or ends in `name` and that have `argument`.
Result<std::vector<pid_t>> ProcessesNamed(const std::string& name, const std::string& argument);

// Returns the proportional set size: each shared page is divided among the processes that share it.
Result<double> PssKib(pid_t pid);

struct Memory {
  double available_kib = 0;  // the kernel's estimate (MemAvailable)
  double kernel_kib = 0;     // slab, stacks, page tables, per-CPU memory
};
Result<Memory> ReadMemory();

// The process, cgroup, link and files of a running sandbox on the host.
struct Place {
  pid_t pid = -1;  // its process 1
  std::string cgroup_dir;
  std::string upper_dir;
  std::string link;
};
// Returns all sandboxes that are children of `spawner`.
Result<std::vector<Place>> FindSandboxes(const std::vector<pid_t>& spawner,
                                         const std::string& data_dir);
// Returns true if no process, cgroup, link or file of the sandbox is left.
bool IsGone(const Place& place);

// Describes the machine that the numbers come from, as a JSON object: processor, kernel, cgroup
// version, file system of /var/tmp, load averages, and the cost of one CPUID in microseconds. A
// virtual machine exits to its hypervisor for each CPUID, and the start of each glibc program
// executes some eighty.
std::string MachineJson();

}  // namespace atl::bench
