// The verbs of 'atoll image' that are files of their own. `hidden`: as docker calls them, at the
// top.
#pragma once

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

void AddBuildVerb(Verb& group, const Settings& settings);
void AddExportVerb(Verb& group, const Settings& settings, const char* name, bool hidden);
void AddVerifyVerb(Verb& group, const Settings& settings);
void AddRegistryVerbs(Verb& group, const Settings& settings, bool hidden);  // pull, push

}  // namespace atl::cli
