// Signals as execd tells them to its clients: in the words of Go, which upstream's execd is written
// in ("signal: killed").
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

// The number of "9", "KILL", "SIGKILL" or "RTMIN+3", in any case; 0: it is none.
int SignalNumber(std::string_view text);

}  // namespace atl
