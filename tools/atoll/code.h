// The verb 'code': a code context at the command line.
#pragma once

#include "tools/atoll/grammar.h"
#include "tools/atoll/settings.h"

namespace atl::cli {

void AddCodeVerb(Verb& root, const Settings& settings);

}  // namespace atl::cli
