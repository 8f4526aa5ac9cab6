// A new program is tried before it takes over: executed beside the one that serves, with the same
// flags, it says by its exit status whether it could serve here.
#pragma once

#include <sys/types.h>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

struct Trial {
  pid_t pid = -1;  // -1: none is under way
  UniqueFd said;   // a byte if it could: a program that is another one altogether ends well, too
};
// Forks. Ends by itself within seconds, whatever the program does. `host_mounts` is borrowed.
Result<Trial> StartTrial(const Config& config, int host_mounts);
// With the exit status of its process: whether the new program is to take over, or why not.
Status JudgeTrial(const Config& config, const Trial& trial, int status);

// In the new program (--trial yes): opens what it needs, runs the programs that it would run, and
// says so to --ready-fd. Changes nothing.
Status Try(const Config& config);

}  // namespace atl::spawner
