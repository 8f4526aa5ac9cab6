// Answers the notebook probe of released SDKs. Before its first use, their code interpreter repeats
// a command until that command finds a notebook server on loopback. execd needs no such server:
// /code works at once, or refuses with a named error. So execd gives the command a port that is
// open. Otherwise the SDK would wait half a minute and then fail without naming a cause.
#pragma once

#include <string_view>

#include "execd/core/core.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// If `command` is the probe, sets JUPYTER_PORT in its environment to a loopback port that stays
// open as long as the returned descriptor. Returns an invalid descriptor for other commands, and if
// the image has a notebook server: one that listens, or one whose port JUPYTER_PORT already names.
// That server answers the probe itself, and execd never takes its port.
Result<UniqueFd> AnswerNotebookProbe(std::string_view command, Environment* env);

}  // namespace atl::execd
