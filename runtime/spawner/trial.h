// Tries a new program before it takes over. It is executed beside the serving one, with the same
// flags, and its exit status says whether it could serve here.
#pragma once

#include <sys/types.h>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

struct Trial {
  pid_t pid = -1;  // -1: no trial is under way
  UniqueFd said;   // gets a byte on success, because an unrelated program may also exit with 0
};
// Forks. Ends by itself within seconds, whatever the program does. `host_mounts` is borrowed.
Result<Trial> StartTrial(const Config& config, int host_mounts);
// `status`: the exit status of the trial's process. Returns an error if the new program must not
// take over.
Status JudgeTrial(const Config& config, const Trial& trial, int status);

// Runs in the new program (--trial yes): opens what it needs, runs the programs that it would run,
// and reports success to --ready-fd. Changes nothing.
Status Try(const Config& config);

}  // namespace atl::spawner
