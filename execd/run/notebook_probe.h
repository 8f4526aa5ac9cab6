// Before its first use, the code interpreter of released SDKs waits until a command says that a
// notebook server listens on loopback. execd needs none: what /code can do here it can do at once,
// and what it cannot is refused by name. So there is nothing to wait for, and the command is told a
// port that is open. Half a minute of waiting would end in an error that names no cause.
#pragma once

#include <string_view>

#include "execd/core/core.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// If `command` is that question, sets JUPYTER_PORT in its environment to a loopback port that is
// open as long as the descriptor which is returned; else returns none. Also none if the image has a
// notebook server: one that listens, or one whose port JUPYTER_PORT already tells. That one answers
// for itself, and its port is never taken from it.
Result<UniqueFd> AnswerNotebookProbe(std::string_view command, Environment* env);

}  // namespace atl::execd
