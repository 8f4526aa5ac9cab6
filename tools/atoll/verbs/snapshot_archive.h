// The verbs of 'atoll snapshot' that move a snapshot between daemons.
#pragma once

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

void AddSnapshotArchiveVerbs(Verb& group, const Settings& settings);  // export, import, push, pull

}  // namespace atl::cli
