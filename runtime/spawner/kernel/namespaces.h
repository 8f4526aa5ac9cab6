// Namespaces made ahead of time, as descriptors: a short-lived process is born in, or enters, the
// new namespace, and ends once its /proc/PID/ns entry is open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

struct IdMap {
  uid_t inside = 0;
  uid_t outside = 0;
};

// A user namespace with one map of kIdsPerSandbox ids, for uids and gids alike. Its owner is
// `outside`: whatever processes in it hold of what the kernel counts by user (inotify instances,
// message queues, queued signals, user namespaces…) is charged to its owner too, and must not be to
// a user that another sandbox, or the host, shares.
Result<UniqueFd> MakeUserNamespace(IdMap map);
// The same with lines as /proc/PID/uid_map and gid_map take them.
Result<UniqueFd> MakeUserNamespace(uid_t owner, const std::string& uid_map,
                                   const std::string& gid_map);

// For a process that has just entered a user namespace, with all capabilities: every limit in its
// /proc/sys/user becomes 0, so that no process in it will ever create a namespace, whatever a
// filter lets through. `sysctls`: /proc/sys, open; its user/ is that of whoever looks, and writable
// to CAP_SYS_RESOURCE in it, which no process of a sandbox has (namespaces(7)).
Status SealNamespaceLimits(int sysctls);

// A cgroup namespace whose root is the group at `directory` (cgroup v2) and, on hybrid hosts, the
// v1 groups of `tasks` (their tasks files). The groups are left empty again.
Result<UniqueFd> MakeCgroupNamespace(int directory, const std::vector<UniqueFd>& tasks);

// Writes /proc/PID/uid_map and gid_map of a child that was born in a new user namespace.
Status WriteIdMaps(pid_t pid, IdMap map);

}  // namespace atl::spawner
