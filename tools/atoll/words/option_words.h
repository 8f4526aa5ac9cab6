// Parses options with CLI11; no other file uses that library.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Parses the leading options of `verb` and of the verbs above it, fills their targets, and removes
// them from `words`, which then begins with the first other word. `*help` is set if --help was
// among them. kInvalidArgument: a wrong value.
Status TakeOptions(const Verb& verb, Words* words, bool* help);

}  // namespace atl::cli
