// The steps that put an image's root under a parked execd. Each runs in the slot's own mount
// namespace, in which nothing propagates to the host.
#pragma once

#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/root/volume_sources.h"
#include "runtime/spawner/slot/slots.h"

namespace atl::wire {
struct Plan;
}

namespace atl::spawner {

// Input of the steps, and what one step leaves for the next.
struct RootState {
  const Host* host = nullptr;
  const wire::Plan* plan = nullptr;
  const Slot* slot = nullptr;
  const std::vector<VolumeSource>* volumes = nullptr;  // one for each volume of the plan
  int execd = -1;                                      // pidfd
  UniqueFd root;                                       // the mounted root, O_PATH
};

Status LimitFiles(RootState& state);  // limit of open files for execd and all that it starts; first
Status WriteEtc(RootState& state);    // the host name; /etc/hostname, hosts, resolv.conf
Status MountOverlay(RootState& state);  // the root
Status MoveMounts(RootState& state);    // moves /proc, /sys, /dev onto it
Status CoverRoot(RootState& state);     // puts the root over the slot's tree, where execd enters it

}  // namespace atl::spawner
