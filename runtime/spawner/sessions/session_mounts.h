// The files of a session: the sandbox's root read-only, a /proc, /dev and /run of its own, and the
// mounts that were asked for.
#pragma once

#include <sys/types.h>

#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/session.h"

namespace atl::spawner {

struct SessionMounts {
  const wire::SessionSpec* spec = nullptr;
  uid_t base = 0;          // the slot's first id
  int store = -1;          // a detached mount of the session's directory in the store, id-mapped
  bool cgroup_v2 = false;  // false: v1 cgroups, with the v2 hierarchy beside them
};

// Furnishes the mounts. Call in the first process of the session's pid namespace, in a copy of the
// sandbox's mount namespace and standing in its root.
//
// The sandbox has chosen the paths, and may change the directories on the way meanwhile. So each
// path is opened once, within the root and not through /proc's magic links, and the opened file is
// mounted. The kernel's own file systems are refused, because beneath the mounts that hide parts of
// them they are whole.
//
// Returns the uppers on disk in the order of wire::SessionUppers, and the session's /proc/sys from
// before that became read-only.
struct SessionFurniture {
  std::vector<UniqueFd> uppers;
  UniqueFd sysctls;
};
Result<SessionFurniture> FurnishSession(const SessionMounts& mounts);

}  // namespace atl::spawner
