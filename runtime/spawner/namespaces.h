// Namespaces made ahead of time, as descriptors: a short-lived process is born in, or enters, the
// new namespace, and is killed once its /proc/PID/ns entry is open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

struct IdMap {
  uid_t inside = 0;
  uid_t outside = 0;
};

// A user namespace with one map of kIdsPerSandbox ids, for uids and gids alike. With `sealed`,
// every limit in its /proc/sys/user is 0: no process in it will ever create a namespace, whatever a
// filter lets through.
Result<UniqueFd> MakeUserNamespace(IdMap map, bool sealed);

// A cgroup namespace whose root is the group at `directory` (cgroup v2) and, on hybrid hosts, the
// v1 groups of `tasks` (their tasks files). The groups are left empty again.
Result<UniqueFd> MakeCgroupNamespace(int directory, const std::vector<UniqueFd>& tasks);

// clone3(2) with a null stack: like fork, with namespaces and into a cgroup. 0 in the child.
// `cgroup` is -1 or a cgroup v2 directory (CLONE_INTO_CGROUP, Linux 5.7): no write to cgroup.procs,
// which would wait for an RCU grace period, 4 to 15 ms.
Result<pid_t> Clone(uint64_t flags, int cgroup);

// Writes /proc/PID/uid_map and gid_map of a child that was born in a new user namespace.
Status WriteIdMaps(pid_t pid, IdMap map);

}  // namespace atl::spawner
