// The verbs of 'atoll image' that have their own file. `hidden`: adds them at the top level, under
// docker's names.
#pragma once

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

void AddBuildVerb(Verb& group, const Settings& settings);
void AddExportVerb(Verb& group, const Settings& settings, const char* name, bool hidden);
void AddVerifyVerb(Verb& group, const Settings& settings);
void AddRegistryVerbs(Verb& group, const Settings& settings, bool hidden);  // pull, push

}  // namespace atl::cli
