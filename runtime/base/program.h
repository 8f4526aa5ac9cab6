// Starts programs of this project that run beside the caller.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace atl {

// Finds the program `name`: beside the running one, as in a build folder, or where it is installed.
// Needs no setting.
Result<std::string> FindProgram(const std::string& name);

struct SpawnedProgram {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  // Descriptors that the program gets, with the numbers that they have there. Standard input is
  // /dev/null. All other open descriptors must be close-on-exec.
  std::vector<std::pair<int, int>> descriptors;
};

// Starts the program in a session of its own, so that a terminal's Ctrl-C does not reach it, with
// default signal handlers and no signal blocked. The caller must wait for its exit.
Result<pid_t> Spawn(const SpawnedProgram& program);

}  // namespace atl
