// The verbs of the command line, one file per group. Each function adds its verbs to `root`. A verb
// reads `settings` when it is called.
#pragma once

#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

void AddRunVerb(Verb& root, const Settings& settings);
void AddExecVerb(Verb& root, const Settings& settings);
void AddSandboxVerbs(Verb& root, const Settings& settings);    // ps, rm, prune
void AddLifecycleVerbs(Verb& root, const Settings& settings);  // inspect, pause, …
void AddPortVerbs(Verb& root, const Settings& settings);       // port, open, forward
void AddEndingVerbs(Verb& root, const Settings& settings);     // wait, stop, kill
void AddLogVerbs(Verb& root, const Settings& settings);        // logs, attach
void AddReplayVerb(Verb& root, const Settings& settings);
void AddStatsVerbs(Verb& root, const Settings& settings);  // stats, top
void AddDiskVerb(Verb& root, const Settings& settings);    // du
void AddUsageVerb(Verb& root, const Settings& settings);   // usage
void AddEventsVerb(Verb& root, const Settings& settings);
void AddCopyVerb(Verb& root, const Settings& settings);
void AddImageVerbs(Verb& root, const Settings& settings);
void AddNetVerb(Verb& root, const Settings& settings);
void AddBranchVerbs(Verb& root, const Settings& settings);  // fork, diff
void AddSnapshotVerbs(Verb& root, const Settings& settings);
void AddPoolVerbs(Verb& root, const Settings& settings);
void AddTemplateVerbs(Verb& root, const Settings& settings);
void AddVolumeVerbs(Verb& root, const Settings& settings);
void AddDaemonVerbs(Verb& root, const Settings& settings);
void AddAuditVerbs(Verb& root, const Settings& settings);
void AddLoginVerbs(Verb& root, const Settings& settings);   // login, logout, whoami
void AddTenantVerbs(Verb& root, const Settings& settings);  // tenant, key
void AddVmVerbs(Verb& root, const Settings& settings);      // vm prepare
void AddHelpVerbs(Verb& root, const Settings& settings);    // help, completion, complete, man

}  // namespace atl::cli
