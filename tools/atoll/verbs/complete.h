// Completion of command lines, called by the shells' completion scripts.
#pragma once

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Prints the completions of `words`, one a line: verbs and options, and images, sandboxes or
// volumes where an argument has such a name.
Status Complete(const Verb& root, const Settings& settings, const Words& words);

}  // namespace atl::cli
