// Starts programs and times them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::bench {

// Starts a program found through $PATH. Its stdin is /dev/null; so is stdout or stderr given as -1.
Result<pid_t> Spawn(const std::vector<std::string>& argv, int out, int err);

// Waits for the process and reaps it. An exit status other than 0 is an error that names `what`.
Status Await(pid_t pid, const std::string& what);

struct RunMicros {
  int64_t first = 0;  // start to first output
  int64_t exit = 0;   // start until reaped
};
// Runs a program that must print "hi" and succeed. Its standard error goes to `err`.
Result<RunMicros> RunTimed(const std::vector<std::string>& argv, int err);

}  // namespace atl::bench
