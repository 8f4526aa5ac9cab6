// The steps that build a sandbox's file system tree and move into it. Each runs in the child, in
// its own mount namespace, in which nothing propagates to the host.
#pragma once

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/sandbox_child.h"

namespace atl::spawner {

// What one step leaves for the next.
struct ChildState {
  const ChildInput* input = nullptr;
  UniqueFd root;  // the mounted root, O_PATH
  UniqueFd proc;  // its /proc
};

Status MountOverlay(ChildState& state);  // the root
Status MountProc(ChildState& state);
Status MoveSys(ChildState& state);    // sysfs and the cgroup file system, both read-only
Status MoveDev(ChildState& state);    // nodes, pts, shm, mqueue
Status MountEtc(ChildState& state);   // hostname, hosts, resolv.conf
Status MaskPaths(ChildState& state);  // what OCI runtimes hide or make read-only in /proc
Status PivotRoot(ChildState& state);  // the slot's tree is gone afterwards

}  // namespace atl::spawner
