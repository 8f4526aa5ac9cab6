// Moves the memory of a frozen cgroup to swap, in a process of its own.
#pragma once

#include <sys/types.h>

#include "cgroup/tree.h"
#include "runtime/base/result.h"

namespace atl::spawner {

// Forks. The child ends by itself within kPageOutSeconds, and writes a wire::Reclaimed to `result`
// (EncodeFields). If it writes none, it was killed.
Result<pid_t> StartPageOut(const cgroup::PagingFiles& files, int result);
inline constexpr unsigned kPageOutSeconds = 5;

}  // namespace atl::spawner
