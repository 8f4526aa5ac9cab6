#include "runtime/spawner/root/root_child.h"

#include <sched.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/vfork_clone.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/root/device_mounts.h"
#include "runtime/spawner/root/root_steps.h"
#include "runtime/spawner/root/volume_mounts.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

using wire::Step;

constexpr RootStep kExecdSteps[] = {
    {Step::kLimits, LimitFiles},    {Step::kEnter, EnterSlot},   {Step::kEtc, WriteEtc},
    {Step::kOverlay, MountOverlay}, {Step::kMounts, MoveMounts}, {Step::kVolumes, MountVolumes},
    {Step::kCover, CoverRoot},
};

}  // namespace

const std::span<const RootStep> kRootOverExecd(kExecdSteps);

// One call enters both namespaces (Linux 5.8), by a pidfd, so that no descriptor is kept for each
// slot.
Status EnterSlot(RootState& state) {
  if (::setns(state.execd, CLONE_NEWNS | CLONE_NEWUTS) != 0) return FailSys("setns");
  return ActAs(state.host->IdBase(state.plan->slot));
}

namespace {

struct RootInput {
  const Host* host;
  const wire::Plan* plan;
  const Slot* slot;
  const std::vector<VolumeSource>* volumes;
  const DeviceSources* devices;
  int execd;
  std::span<const RootStep> steps;
  RootReport* report;
  int64_t began_us;
};

Status RunSteps(const RootInput& start) {
  RootState state{.host = start.host,
                  .plan = start.plan,
                  .slot = start.slot,
                  .volumes = start.volumes,
                  .devices = start.devices,
                  .execd = start.execd,
                  .root = {},
                  .descriptors = {}};
  // The first step's time includes the clone.
  int64_t then = start.began_us;
  for (const RootStep& step : start.steps) {
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

RootReport MountRoot(const Host& host, const wire::Plan& plan, const Slot& slot, int execd,
                     std::span<const RootStep> steps) {
  RootReport report;
  report.step = Step::kLimits;
  const std::vector<VolumeSource> none;
  const DeviceSources no_devices;
  RootInput start{
      &host, &plan, &slot, &none, &no_devices, execd, steps, &report, SystemClock().BootMicros()};
  const auto child = Vfork(0, -1, RunRootChild, &start);
  if (!child) report.status = Fail(child.error());
  return report;
}

RootReport MountRootHere(const Host& host, const wire::Plan& plan, const std::vector<int>& buckets,
                         const Slot& slot, int execd, std::span<const RootStep> steps) {
  RootReport report;
  report.step = Step::kVolumes;
  const int64_t began_us = SystemClock().BootMicros();
  auto volumes = OpenVolumeSources(host, plan.volumes, host.IdBase(plan.slot));
  if (!volumes) {
    report.status = Fail(std::move(volumes).error());
    return report;
  }
  const auto devices = OpenDevices(host, plan.devices);
  if (!devices) {
    report.status = Fail(devices.error());
    return report;
  }
  // The ids have changed on the way.
  EndWithParent();
  for (size_t i = 0; i < volumes->size(); ++i) (*volumes)[i].bucket = buckets[i];
  const int64_t opened_us = SystemClock().BootMicros();
  report.status =
      RunSteps({&host, &plan, &slot, &*volumes, &*devices, execd, steps, &report, opened_us});
  report.micros[static_cast<size_t>(Step::kVolumes)] += static_cast<uint32_t>(opened_us - began_us);
  return report;
}

}  // namespace atl::spawner
