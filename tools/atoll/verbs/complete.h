// What may follow the words of a command line, as the shells' scripts ask.
#pragma once

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

// Prints it, one a line: verbs, options, and by an argument's name images, sandboxes or volumes.
Status Complete(const Verb& root, const Settings& settings, const Words& words);

}  // namespace atl::cli
