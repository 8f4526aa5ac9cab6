// The verbs of the command line, one file per group. Each function adds its verbs to `app`; the one
// that is called sets `*exit_code`. The references are used when it is called.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/settings.h"

namespace CLI {
class App;
}

namespace atl::cli {

using Words = std::vector<std::string>;

void AddImageVerbs(CLI::App& app, const Settings& settings, int* exit_code);
// `command`: what followed "--".
void AddRunVerb(CLI::App& app, const Settings& settings, const Words& command, int* exit_code);
void AddExecVerb(CLI::App& app, const Settings& settings, const Words& command, int* exit_code);
void AddSandboxVerbs(CLI::App& app, const Settings& settings, int* exit_code);
void AddLifecycleVerbs(CLI::App& app, const Settings& settings, int* exit_code);
void AddWatchVerbs(CLI::App& app, const Settings& settings, int* exit_code);
void AddNetVerb(CLI::App& app, const Settings& settings, int* exit_code);
void AddVolumeVerbs(CLI::App& app, const Settings& settings, int* exit_code);
void AddCopyVerb(CLI::App& app, const Settings& settings, int* exit_code);
void AddCompletionVerb(CLI::App& app, int* exit_code);
// `words`: what followed "--".
void AddCompleteVerb(CLI::App& app, const Settings& settings, const Words& words, int* exit_code);
void AddDaemonVerbs(CLI::App& app, const Settings& settings, int* exit_code);

// Exit codes of our own failures.
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
// Of run and exec, whose other codes are the command's.
inline constexpr int kRunFailed = 125;

// 0, or `failed` after "atoll: message" on stderr.
int Report(const Status& status, int failed = kFailed);

}  // namespace atl::cli
