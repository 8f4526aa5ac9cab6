// Runs one command in a sandbox and passes on what it prints.
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
  // Start it, print its id and leave it running.
  bool background = false;
  // Whether an interrupt stops the command; needless if the sandbox is deleted then anyway.
  bool stop_on_interrupt = true;
};

// Prints stdout and stderr as they come; how the command ended, 128 + signal if an interrupt ended
// the wait, or why it could not be run. `cancel_fd` comes from CatchInterrupts.
Result<Exit> RunCommand(Api& api, const std::string& sandbox_id, const Command& command,
                        int cancel_fd);
// {"argv", "envs", "cwd", "uid", "gid"} of a request to execd.
nlohmann::json CommandBody(const Command& command);
// Of a program that could not be started: its exit code, or an error.
Result<Exit> Unstarted(const std::string& why);

// NAME=VALUE as given, NAME alone as in our own environment; kInvalidArgument for anything else.
// The lines of `files` come first; # begins a comment there.
Result<std::vector<std::string>> ExpandEnvironment(const std::vector<std::string>& settings,
                                                   const std::vector<std::string>& files);
// {"NAME": "VALUE"}.
nlohmann::json EnvironmentObject(const std::vector<std::string>& env);

}  // namespace atl::cli
