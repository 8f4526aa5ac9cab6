// Exit codes of commands in sandboxes, and their reasons in words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

struct Exit {
  int code = 0;        // 128 + signal if a signal ended it
  std::string reason;  // "killed by SIGKILL (out of memory: …)"; empty: it exited
};

// Translates execd's words: "exit status 3", "signal: killed (out of memory: …)".
Exit ExitOf(int code, std::string_view told);
// Translates execd's message about a program that could not start to docker's codes: 127 if it does
// not exist, 126 if it is not executable. Nothing: the message is about something else.
std::optional<Exit> ExitOfUnstarted(const std::string& told);

// Returns the exit for output that could not be written here: that of SIGPIPE if the reader has
// gone, else the reason in `why`.
Exit ExitOfUnwritten(const Error& why);

// Returns "SIGKILL" for 9, "signal 40" for a signal without a name.
std::string SignalName(int number);

// Returns how a sandbox ended that went away during a command, if the server still knows.
Error WhyGone(Api& api, const std::string& sandbox_id);

// Prints the reason on stderr and returns the exit code. With --json it always prints {"exitCode":
// …, "reason": …}. After a limit of the sandbox was hit, it also prints the sandbox's own limit.
int Tell(Api& api, const Settings& settings, const std::string& sandbox_id, const Exit& exit);

}  // namespace atl::cli
