// Executes the spawner's own program again from a forked child.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

// Enters the host's mount namespace, where every spawner starts. `host_mounts`: its descriptor.
Status ToHostMounts(int host_mounts);

// Executes the program in a forked child, in the host's mount namespace, with default signals, none
// of them blocked. The program gets the standard descriptors and, as number 3, `kept` (-1: none).
// If it cannot be executed, logs why and exits with 127.
[[noreturn]] void Execute(const std::string& program, const std::vector<std::string>& arguments,
                          int kept);

}  // namespace atl::spawner
