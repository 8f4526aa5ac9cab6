// The second half of a sandbox: the root of its image for a parked execd (slot_child.h). A
// short-lived child in the spawner's memory enters the slot's mount and uts namespaces and runs the
// list of steps of the slot's tier. When the gate opens, execd enters the root that now lies over
// the root it was started in.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/root/volume_sources.h"
#include "runtime/spawner/slot/slots.h"
#include "runtime/wire/step.h"

namespace atl::wire {
struct Plan;
}

namespace atl::spawner {

struct RootState;

struct RootStep {
  wire::Step step;
  Status (*run)(RootState&);
};
// The list of the namespace tier: the root over the tree in which execd waits.
extern const std::span<const RootStep> kRootOverExecd;
// The first step of every tier's list: enters the slot's mount and uts namespaces.
Status EnterSlot(RootState& state);

struct RootReport {
  Status status = Fail(Code::kInternal, "the process that mounts the root died");
  wire::Step step = wire::Step::kCount;  // the step that failed
  wire::StepMicros micros{};             // durations of its own steps, in microseconds
};

// Mounts the root of a plan without volumes and devices, in a child that borrows this process's
// memory. `execd`: a pidfd, taken while nobody can have reaped it. Returns when the steps have
// ended; the caller reaps the child.
RootReport MountRoot(const Host& host, const wire::Plan& plan, const Slot& slot, int execd,
                     std::span<const RootStep> steps);

// Mounts the root of a plan with volumes or devices, in this process, which stays in the slot's
// namespaces and may never come back (volume_work.h). `buckets`: for each of the plan's volumes the
// mount of a bucket, or -1.
RootReport MountRootHere(const Host& host, const wire::Plan& plan, const std::vector<int>& buckets,
                         const Slot& slot, int execd, std::span<const RootStep> steps);

}  // namespace atl::spawner
