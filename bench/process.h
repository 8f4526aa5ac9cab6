// Programs that are run and timed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// posix_spawn with $PATH; stdin is /dev/null, -1 for the others too.
Result<pid_t> Spawn(const std::vector<std::string>& argv, int out, int err);

// Waits and reaps; an exit status other than 0 is an error that names `what`.
Status Await(pid_t pid, const std::string& what);

struct RunMicros {
  int64_t first = 0;  // spawned → its first output
  int64_t exit = 0;   // spawned → reaped
};
// Runs a program that must print "hi" and succeed. Its standard error goes to `err`.
Result<RunMicros> RunTimed(const std::vector<std::string>& argv, int err);

}  // namespace atl::bench
