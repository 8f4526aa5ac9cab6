// Makes namespaces ahead of time, as descriptors. A short-lived process is born in, or enters, the
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

// Makes a user namespace with one map of kIdsPerSandbox ids, for uids and gids alike. Its owner is
// `outside`, because the kernel charges what it counts by user (inotify instances, message queues,
// queued signals, user namespaces…) to the owner too. That must not be a user that another sandbox,
// or the host, shares.
Result<UniqueFd> MakeUserNamespace(IdMap map);
// The same with explicit lines for /proc/PID/uid_map and gid_map.
Result<UniqueFd> MakeUserNamespace(uid_t owner, const std::string& uid_map,
                                   const std::string& gid_map);

// Makes a network namespace that belongs to a user namespace: its root may configure it. One that
// the spawner makes for itself belongs to the host.
Result<UniqueFd> MakeNetworkNamespace(int user_namespace);

// Sets every limit in /proc/sys/user of the caller's user namespace to 0, so that no process in it
// can ever create a namespace, whatever a filter lets through. Call in a process that has just
// entered it, with all capabilities. `sysctls`: /proc/sys, open. Its user/ is that of the caller's
// namespace, and needs CAP_SYS_RESOURCE there, which no process of a sandbox has (namespaces(7)).
Status SealNamespaceLimits(int sysctls);

// Makes a cgroup namespace whose root is the cgroup at `directory` (v2) and, on hybrid hosts, the
// v1 cgroups of `tasks` (their tasks files). Leaves no process in these cgroups.
Result<UniqueFd> MakeCgroupNamespace(int directory, const std::vector<UniqueFd>& tasks);

// Writes /proc/PID/uid_map and gid_map of a child in a new user namespace.
Status WriteIdMaps(pid_t pid, IdMap map);

}  // namespace atl::spawner
