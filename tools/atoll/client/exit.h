// How a command in a sandbox ended, as people are told.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

struct Exit {
  int code = 0;        // 128 + signal if one ended it
  std::string reason;  // "killed by SIGKILL (out of memory: …)"; empty: it ended by itself
};

// From execd's words: "exit status 3", "signal: killed (out of memory: …)".
Exit ExitOf(int code, std::string_view told);
// From execd's words for a program that could not be started, with docker's codes: 127 if there is
// none of that name, 126 if it is no program. Nothing: it is about something else.
std::optional<Exit> ExitOfUnstarted(const std::string& told);

// Of a command whose output could not be written here: as if SIGPIPE had ended us where nobody
// reads it any more, else why.
Exit ExitOfUnwritten(const Error& why);

// "SIGKILL" of 9; "signal 40" of what has no name.
std::string SignalName(int number);

// Of a sandbox that went away under a command: how it ended, if the server still knows.
Error WhyGone(Api& api, const std::string& sandbox_id);

// Says why on stderr, with --json always {"exitCode": …, "reason": …}; the code. After a
// limit that was met with the sandbox's own.
int Tell(Api& api, const Settings& settings, const std::string& sandbox_id, const Exit& exit);

}  // namespace atl::cli
