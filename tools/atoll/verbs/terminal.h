// A command in a sandbox with our standard input: on a terminal of its own, or on pipes.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/command.h"

namespace atl::cli {

// Our terminal, if `terminal` is set, is in raw mode meanwhile and its size follows. How the
// command ended; 128 + signal if a signal ended us, which ends the command too.
Result<Exit> RunInTerminal(Api& api, const std::string& sandbox_id, const Command& command,
                           bool terminal);

}  // namespace atl::cli
