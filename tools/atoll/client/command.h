// Runs one command in a sandbox and prints its output.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/exit.h"

namespace atl::cli {

struct UserIds {
  uint32_t uid = 0, gid = 0;
};

struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=VALUE
  std::string cwd;               // empty: the sandbox's own
  std::optional<UserIds> user;   // absent: the image's
  // Start the command, print its id and return without waiting.
  bool background = false;
  // An interrupt stops the command. Not needed if the sandbox is deleted afterwards anyway.
  bool stop_on_interrupt = true;
};

// Runs the command and prints its stdout and stderr as they arrive. Returns how the command ended,
// or 128 + signal if an interrupt ended the wait. An error says why it could not run. `cancel_fd`
// comes from CatchInterrupts.
Result<Exit> RunCommand(Api& api, const std::string& sandbox_id, const Command& command,
                        int cancel_fd);
// Builds the body of a request to execd: {"argv", "envs", "cwd", "uid", "gid"}.
nlohmann::json CommandBody(const Command& command);
// Converts execd's message about a program that could not start to its exit code, or to an error.
Result<Exit> Unstarted(const std::string& why);

// Expands NAME=VALUE (kept) and NAME alone (the value from our own environment); kInvalidArgument
// for anything else. The lines of `files` come first; # begins a comment there.
Result<std::vector<std::string>> ExpandEnvironment(const std::vector<std::string>& settings,
                                                   const std::vector<std::string>& files);
// Builds {"NAME": "VALUE"}.
nlohmann::json EnvironmentObject(const std::vector<std::string>& env);

}  // namespace atl::cli
