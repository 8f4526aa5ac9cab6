// Shell text that a resident shell runs: its loop, and the prefix of each script.
#pragma once

#include <string>
#include <string_view>

#include "execd/core/environment.h"

namespace atl::execd {

// The state of a shell after a run, which another shell needs to replace it.
struct ShellState {
  std::string cwd;
  std::string text;  // a script that restores the state in a new shell; empty before the first run
  std::string exit_trap;  // output of `trap -p EXIT`
  bool exit_trap_known = false;
  bool traced = false, verbose = false;  // set -x, set -v
  int code = 0;                          // $?
  bool too_large = false;  // `text` is older than the rest, because the newest text was too long
};

// Returns the shell's loop. The shell reads it from descriptor 0, and the loop reads requests
// there. It reports over the same socket, in fields that end with a NUL:
//   r              ready for the next request
//   s CODE FLAGS   a run has ended; FLAGS is $-
//   d e v          directory, EXIT trap and state; after every s, and when the shell exits
std::string ShellLoop(bool bash);

// Returns a request: a script that the shell itself runs, after which it reports `s`, `d`, `e`,
// `v`. `cwd` is the directory to change to first; empty: none.
std::string ShellRequest(bool bash, const ShellState& state, std::string_view script,
                         const std::string& cwd);
// Returns a request with a script of execd, after which the shell reports `r`.
std::string OwnShellRequest(bool bash, std::string_view script);

// Returns a script of execd that restores `state` in a new shell.
std::string RestoringScript(bool bash, const ShellState& state);

// Returns the exported variables in a state's text, which is untrusted. Omits variables whose value
// the shell has written as $'…'.
Variables ExportedVariables(std::string_view text);

// Quotes `text` as one word of shell text.
std::string ShellQuoted(std::string_view text);

}  // namespace atl::execd
