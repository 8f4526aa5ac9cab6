// The steps that put an image's root under a parked execd. Each runs in the slot's own mount
// namespace, in which nothing propagates to the host.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
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

struct DeviceSources;

// Input of the steps, and what one step leaves for the next.
struct RootState {
  const Host* host = nullptr;
  const wire::Plan* plan = nullptr;
  const Slot* slot = nullptr;
  const std::vector<VolumeSource>* volumes = nullptr;  // one for each volume of the plan
  const DeviceSources* devices = nullptr;              // those of the plan
  int execd = -1;                                      // pidfd
  UniqueFd root;                                       // the mounted root, O_PATH
  UniqueFd descriptors;  // /proc/self/fd, which the slot's /proc does not have; set if wanted
};

// The first process of a sandbox. `id_base` is the owner of the sandbox's user namespace.
struct FirstProcess {
  int pidfd = -1;
  pid_t pid = -1;
  uid_t id_base = 0;
};
// Limits the open files of the process, and of all that it starts later. Call in a child of its
// own.
Status LimitOpenFiles(const FirstProcess& first, uint64_t most);
// Returns what /sys/devices/system/cpu/online says under a CPU limit. "": all processors.
std::string OnlineText(uint64_t cpu_millis);
// Replaces the content of a file that may be read meanwhile.
Status Overwrite(int file, const std::string& text);

Status LimitFiles(RootState& state);  // limit of open files for execd and all that it starts; first
Status WriteEtc(RootState& state);    // the host name; /etc/hostname, hosts, resolv.conf
Status MountOverlay(RootState& state);  // the root
Status MoveMounts(RootState& state);    // moves /proc, /sys, /dev onto it
Status CoverRoot(RootState& state);     // puts the root over the slot's tree, where execd enters it

}  // namespace atl::spawner
