// The body of POST /command.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

struct CommandRequest {
  std::string command;            // for the shell; empty if there is an argv
  std::vector<std::string> argv;  // a program and its arguments, taken as they are
  std::string cwd;
  bool background = false;
  int64_t timeout_ms = 0;  // 0: none
  bool has_uid = false, has_gid = false;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<std::pair<std::string, std::string>> envs;
};
// kInvalidArgument says which member is wrong. Fuzzed.
Result<CommandRequest> ParseCommandRequest(std::string body);

}  // namespace atl::execd
