// Runs a command in a sandbox with our standard input, on a terminal of its own or on pipes.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/command.h"

namespace atl::cli {

// Runs the command. With `terminal` our terminal is in raw mode meanwhile, and the sandbox's
// terminal follows its size. Returns how the command ended. A signal to us ends the command too and
// gives 128 + signal.
Result<Exit> RunInTerminal(Api& api, const std::string& sandbox_id, const Command& command,
                           bool terminal);

}  // namespace atl::cli
