// The body of POST /command, and what POST /pty has in common with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execd/core/environment.h"
#include "execd/core/users.h"
#include "execd/http/json.h"
#include "runtime/base/result.h"

namespace atl::execd {

// The members "uid" and "gid" of a request's body; absent: the image's user is meant.
// kInvalidArgument: not in range, or a gid alone.
Result<std::optional<RequestIds>> IdsMember(const JsonValue& root);

// The members "argv", a list that begins with a program, and "envs", an object. Absent: empty.
Result<std::vector<std::string>> ArgvMember(const JsonValue& root);
Result<Variables> EnvsMember(const JsonValue& root);

struct CommandRequest {
  std::string command;            // for the shell; empty if there is an argv
  std::vector<std::string> argv;  // a program and its arguments, taken as they are
  std::string cwd;
  bool background = false;
  int64_t timeout_ms = 0;  // 0: none
  std::optional<RequestIds> ids;
  Variables envs;
};
// kInvalidArgument says which member is wrong. Fuzzed.
Result<CommandRequest> ParseCommandRequest(std::string body);

}  // namespace atl::execd
