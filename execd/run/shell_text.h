// What a resident shell runs, as shell text: its loop, and what is put before each script.
#pragma once

#include <string>
#include <string_view>

#include "execd/core/environment.h"

namespace atl::execd {

// A shell as it is after a run: what another one needs to go on in its place.
struct ShellState {
  std::string cwd;
  std::string text;       // run by a new shell, makes it equal; empty: nothing was run yet
  std::string exit_trap;  // what `trap -p EXIT` prints
  bool exit_trap_known = false;
  bool traced = false, verbose = false;  // set -x, set -v
  int code = 0;                          // $?
  bool too_large = false;  // `text` is older than the rest, because the newest was too long
};

// The shell's loop, which it reads from descriptor 0 and which reads requests there. It tells on
// the same socket, in fields that end with a NUL:
//   r              it is ready for the next request
//   s CODE FLAGS   a run has ended; FLAGS is $-
//   d e v          directory, EXIT trap and state, behind every s, and when the shell exits
std::string ShellLoop(bool bash);

// One request: a script, run in the shell itself, after which it tells `s`, `d`, `e`, `v`.
// `cwd`: where to go first; empty: nowhere.
std::string ShellRequest(bool bash, const ShellState& state, std::string_view script,
                         const std::string& cwd);
// The same for a script of ours, after which it tells `r`.
std::string OwnShellRequest(bool bash, std::string_view script);

// A script of ours that makes a new shell as `state` says.
std::string RestoringScript(bool bash, const ShellState& state);

// The exported variables of a state's text, which is a stranger's. One whose value the shell has
// written as $'…' is left out.
Variables ExportedVariables(std::string_view text);

// One word of shell text that means `text`.
std::string ShellQuoted(std::string_view text);

}  // namespace atl::execd
