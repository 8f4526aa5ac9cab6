// The first half of a sandbox, from clone3 to execve of execd, as a list of named steps.
//
// The child is born in the slot's cgroup and in new network, mount, pid, ipc and uts namespaces,
// still root of the host and in the builder's memory (vfork_clone.h). The steps furnish its
// namespaces, load the filter, enter the user namespace and drop rights. Then it becomes execd,
// which waits at its gate; the second half (root_child.h) gives it the root of an image. A failure
// is reported with the step's name, and the child exits; nothing that it made outlives it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/step.h"

namespace atl::spawner {

// All descriptors are borrowed, and close-on-exec in the builder.
struct SlotChildInput {
  const Host* host = nullptr;
  uint32_t slot = 0;
  uid_t base = 0;                   // the slot's first id
  cgroup::Limits limits;            // those of the slot's group, the size of /dev/shm among them
  bool ahead = false;               // boot now what needs no image
  uint64_t pass = 0;                // the filter's pass (seccomp.h)
  int group = -1;                   // the child's leaf of the cgroup, for clone3
  int cgroup_namespace = -1;        // its root is the slot's cgroup
  int user_namespace = -1;          // maps 0 to 65535 onto the slot's range
  int id_map = -1;                  // a user namespace that maps the store's range onto the slot's
  int gate = -1;                    // execd's
  int control = -1;                 // execd's
  int listener = -1;                // execd's
  int commands = -1;                // cgroup run/, for execd
  int network = -1;                 // takes a NETLINK_ROUTE socket of the network namespace
  int network_namespace = -1;       // the one to enter; -1: the child is born in a new one
  std::vector<cgroup::View> views;  // hybrid: directories beneath /sys/fs/cgroup
  std::vector<int> tasks;           // hybrid: the child writes itself into these v1 cgroups
  std::vector<int> command_tasks;   // hybrid: for execd
  std::vector<int> accounts;        // hybrid: for execd, in the order of wire::ExecdAccount
};

// Written by the child in the shared memory; complete when StartSlotChild returns.
struct SlotChildReport {
  Status status = Fail(Code::kInternal, "the child died");
  wire::Step step = wire::Step::kClone;  // the failed one; may be before the first
  wire::StepMicros micros{};             // durations of the child's own steps, in microseconds
  int64_t done_at_us = 0;                // BootMicros right before execve
};

// The input of the steps, and what one step leaves for the next.
struct SlotState {
  const SlotChildInput& input;
  // /proc/sys of the slot's own /proc, from before it became read-only. In the host's /proc each
  // namespace leaves a dentry of the same name behind, and with a thousand sandboxes each look-up
  // walks a thousand of them (8 ms for a slot, 0.2 here).
  UniqueFd sysctls;
  UniqueFd score;  // /proc/self/oom_score_adj, for execd
  // Two descriptors for a virtual machine: /dev/net/tun, and the socket by which the spawner asks
  // for a sync.
  UniqueFd tun, sync;
};

struct SlotStep {
  wire::Step step;
  Status (*run)(SlotState&);
};

// The way of a tier from the clone to its first program.
struct SlotProgram {
  std::span<const SlotStep> steps;  // execution follows this order
  // Places the descriptors that the program expects, and returns the program.
  Result<int> (*place)(const SlotState&);
  const char* name;
  const char* option;  // null: none
};
// execd at its gate, the first process of the namespace tier.
extern const SlotProgram kExecdProgram;

// Steps that every tier's list has.
Status FurnishNamespaces(SlotState& state);
Status MountTree(SlotState& state);
Status MountProcOfSlot(SlotState& state);  // also hands out the socket of the network namespace
Status SetProcessLimits(SlotState& state);

// Runs the child; does not return in it. The child's parent is the caller's parent (CLONE_PARENT),
// which reaps it. `report` then holds the outcome.
Result<pid_t> StartSlotChild(const SlotChildInput& input, const SlotProgram& program,
                             SlotChildReport* report);

}  // namespace atl::spawner
