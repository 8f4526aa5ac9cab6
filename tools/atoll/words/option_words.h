// The options of a verb as CLI11 reads them; the one place that knows that library.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Reads the options of `verb` and of those above it that stand in front, fills their targets, and
// takes them off `words`, which then begins with the first word that is none of them. `*help`: the
// one that every verb has was among them. kInvalidArgument: what is wrong with a value.
Status TakeOptions(const Verb& verb, Words* words, bool* help);

}  // namespace atl::cli
