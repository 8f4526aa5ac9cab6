// A slot is what a sandbox needs and no image decides: network namespace, id range, cgroup with its
// namespace, upper directory. Slots are made ahead of time, each by a process of its own, so that
// the spawner goes on serving: namespaces and cgroups cost a millisecond together.
#pragma once

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {

// All five are namespaces. Network, cgroup, ipc and mount namespace are owned by the initial user
// namespace, so that nobody inside has rights over them.
struct Slot {
  UniqueFd network;
  UniqueFd cgroup;
  UniqueFd ipc;
  UniqueFd mounts;      // see slot_mounts.h
  UniqueFd user;        // 0 to 65535 onto the slot's range, sealed
  wire::Limits limits;  // what the cgroup has now
};

// Starts the builder; `channel` (SOCK_SEQPACKET) will hold one message: see ReceiveSlot.
struct SlotBuild {
  pid_t pid = -1;
  UniqueFd channel;
};
Result<SlotBuild> StartSlotBuild(const Host& host, uint32_t slot, const wire::Limits& limits);

// Reads the builder's message: the slot, and a NETLINK_ROUTE socket inside its network namespace.
struct BuiltSlot {
  Slot slot;
  UniqueFd rtnetlink;
};
Result<BuiltSlot> ReceiveSlot(int channel, const wire::Limits& limits);

}  // namespace atl::spawner
