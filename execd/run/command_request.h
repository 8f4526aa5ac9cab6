// The body of POST /command, and the members that POST /pty shares.
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

// Parses "uid" and "gid". Absent means the image's user. kInvalidArgument: out of range, or a gid
// without a uid.
Result<std::optional<RequestIds>> IdsMember(const JsonValue& root);

// Parse "argv", a list that begins with a program, and "envs", an object. Absent: empty.
Result<std::vector<std::string>> ArgvMember(const JsonValue& root);
Result<Variables> EnvsMember(const JsonValue& root);

struct CommandRequest {
  std::string command;            // run by the shell; empty if argv is set
  std::vector<std::string> argv;  // a program and its arguments, run without a shell
  std::string cwd;
  bool background = false;
  int64_t timeout_ms = 0;  // 0: none
  std::optional<RequestIds> ids;
  Variables envs;
};
// Parses the body. kInvalidArgument names the member that is wrong. Fuzzed.
Result<CommandRequest> ParseCommandRequest(std::string body);

}  // namespace atl::execd
