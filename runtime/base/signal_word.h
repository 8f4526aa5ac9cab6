// Names of signals as execd reports them to clients: in the words of Go, the language of upstream's
// execd ("signal: killed").
#pragma once

#include <signal.h>

#include <string_view>

namespace atl {

struct SignalWord {
  int number;
  const char* word;
};

inline constexpr SignalWord kSignalWords[] = {
    {SIGHUP, "hangup"},
    {SIGINT, "interrupt"},
    {SIGQUIT, "quit"},
    {SIGILL, "illegal instruction"},
    {SIGABRT, "aborted"},
    {SIGBUS, "bus error"},
    {SIGFPE, "floating point exception"},
    {SIGKILL, "killed"},
    {SIGSEGV, "segmentation fault"},
    {SIGPIPE, "broken pipe"},
    {SIGALRM, "alarm clock"},
    {SIGTERM, "terminated"},
    {SIGSYS, "bad system call"},
};

// Parses "9", "KILL", "SIGKILL" or "RTMIN+3", in any case. Returns 0 if it is not a signal.
int SignalNumber(std::string_view text);

}  // namespace atl
