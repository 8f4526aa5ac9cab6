// What a session sees: the sandbox's root read-only, a /proc, /dev and /run of its own, and the
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
  bool cgroup_v2 = false;  // else v1 groups, with v2's hierarchy beside them
};

// For the first process of the session's pid namespace, in a copy of the sandbox's mount namespace
// and standing in its root.
//
// Paths were chosen by the sandbox and lead through directories that it may change meanwhile: each
// is opened once, within the root and not through /proc's magic links, and what it then is, is what
// is mounted. The file systems of the kernel's own are refused: beneath what hides parts of them
// they are whole.
//
// What comes back are the uppers on disk as wire::SessionUppers has them, and its /proc/sys from
// before that became read-only.
struct SessionFurniture {
  std::vector<UniqueFd> uppers;
  UniqueFd sysctls;
};
Result<SessionFurniture> FurnishSession(const SessionMounts& mounts);

}  // namespace atl::spawner
