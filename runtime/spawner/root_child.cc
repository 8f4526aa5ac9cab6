#include "runtime/spawner/root_child.h"

#include <sched.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/root_steps.h"
#include "runtime/spawner/slot_mounts.h"
#include "runtime/spawner/vfork_clone.h"
#include "runtime/spawner/volume_mounts.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

using wire::Step;

// One call for both namespaces (Linux 5.8), by a descriptor that needs not be kept for each slot.
Status EnterSlot(RootState& state) {
  if (::setns(state.execd, CLONE_NEWNS | CLONE_NEWUTS) != 0) return FailSys("setns");
  return ActAs(state.host->IdBase(state.plan->slot));
}

struct RootStep {
  Step step;
  Status (*run)(RootState&);
};
constexpr RootStep kRootSteps[] = {
    {Step::kLimits, LimitFiles},    {Step::kEnter, EnterSlot},   {Step::kEtc, WriteEtc},
    {Step::kOverlay, MountOverlay}, {Step::kMounts, MoveMounts}, {Step::kVolumes, MountVolumes},
    {Step::kCover, CoverRoot},
};

struct RootInput {
  const Host* host;
  const wire::Plan* plan;
  const Slot* slot;
  const std::vector<VolumeSource>* volumes;
  int execd;
  RootReport* report;
  int64_t began_us;
};

Status RunSteps(const RootInput& start) {
  RootState state{.host = start.host,
                  .plan = start.plan,
                  .slot = start.slot,
                  .volumes = start.volumes,
                  .execd = start.execd,
                  .root = {}};
  // The first step's time has the clone in it.
  int64_t then = start.began_us;
  for (const RootStep& step : kRootSteps) {
    start.report->step = step.step;
    ATOLL_TRY(step.run(state));
    const int64_t now = SystemClock().BootMicros();
    start.report->micros[static_cast<size_t>(step.step)] = static_cast<uint32_t>(now - then);
    then = now;
  }
  return {};
}

void RunRootChild(void* argument) {
  const auto* start = static_cast<const RootInput*>(argument);
  ::alarm(kVforkSeconds);
  start->report->status = RunSteps(*start);
  ::_exit(0);
}

}  // namespace

RootReport MountRoot(const Host& host, const wire::Plan& plan,
                     const std::vector<VolumeSource>& volumes, const Slot& slot) {
  RootReport report;
  report.step = Step::kLimits;
  const int64_t began_us = SystemClock().BootMicros();
  const auto pidfd = sys::PidfdOpen(slot.execd);
  if (!pidfd) {
    report.status = Fail(pidfd.error());
    return report;
  }
  RootInput start{&host, &plan, &slot, &volumes, pidfd->get(), &report, began_us};
  const auto child = Vfork(0, -1, RunRootChild, &start);
  if (!child) report.status = Fail(child.error());
  return report;
}

}  // namespace atl::spawner
