// Programs of ours that run beside the one that starts them.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace atl {

// Where the program `name` is: beside the running one, as in a build folder, else where it is
// installed. No setting is needed.
Result<std::string> FindProgram(const std::string& name);

struct SpawnedProgram {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  // What it finds open, by the number that it has there; standard input is /dev/null. Everything
  // else that is open here has to be close-on-exec.
  std::vector<std::pair<int, int>> descriptors;
};

// Starts it in a session of its own (a terminal's Ctrl-C is not for it), with default signals, of
// which none is blocked. Its end is the caller's to wait for.
Result<pid_t> Spawn(const SpawnedProgram& program);

}  // namespace atl
