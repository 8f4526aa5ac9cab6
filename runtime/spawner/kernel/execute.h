// The spawner's own program, executed again from a forked child.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::spawner {

// `host_mounts`: the host's mount namespace. Where every spawner starts.
Status ToHostMounts(int host_mounts);

// In a forked child, in the host's mount namespace: becomes the program, with default signals, none
// of them blocked, and no descriptor but the standard ones and, as number 3, `kept` (-1: none).
// Exits with 127, having logged why, if it cannot be executed.
[[noreturn]] void Execute(const std::string& program, const std::vector<std::string>& arguments,
                          int kept);

}  // namespace atl::spawner
