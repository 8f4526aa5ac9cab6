#include "runtime/spawner/slot/slot_child.h"

#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/vfork_clone.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/spawner/slot/slot_proc.h"

namespace atl::spawner {
namespace {

using wire::Step;

struct SlotState {
  const SlotChildInput& input;
  // /proc/sys of the slot's own /proc, from before it became read-only. In the host's /proc each
  // namespace leaves a dentry of the same name behind, and with a thousand sandboxes each look-up
  // walks a thousand of them (8 ms for a slot, 0.2 here).
  UniqueFd sysctls;
  UniqueFd score;  // /proc/self/oom_score_adj, for execd
};

Status FurnishNamespaces(SlotState& state) {
  const SlotChildInput& input = state.input;
  // v1 groups (27 µs each): a process enters by writing "0" itself, to "tasks" and not to
  // cgroup.procs, which would wait for an RCU grace period.
  for (int tasks : input.tasks) ATOLL_TRY(sys::WriteAll(tasks, "0"));
  ::setsid();
  if (::setns(input.cgroup_namespace, CLONE_NEWCGROUP) != 0) return FailSys("setns cgroup");
  return {};
}

// Before the daemon makes the link, which takes the defaults of that moment.
Status FurnishNetwork(const SlotState& state) {
  ATOLL_TRY(SetNetworkDefaults(state.sysctls.get()));
  const UniqueFd links(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!links) return FailSys("socket NETLINK_ROUTE");
  const int fds[] = {links.get()};
  return sys::SendMessage(state.input.network, "+", fds);
}

Status MountTree(SlotState& state) {
  const SlotChildInput& input = state.input;
  return AssembleMounts(*input.host, input.base, input.id_map, input.shm_bytes, input.views);
}

Status MountProcOfSlot(SlotState& state) {
  ATOLL_TRY(MountProc());
  ATOLL_ASSIGN(state.sysctls, sys::Open("/proc/sys", O_RDONLY | O_DIRECTORY));
  return FurnishNetwork(state);
}

Status MaskProcOfSlot(SlotState&) {
  ATOLL_TRY(MaskProc("/empty"));
  return CoverDescriptors("/streams");
}

Status SetProcessLimits(SlotState&) {
  return LimitProcess(0);
}

Status EnterUser(SlotState& state) {
  const SlotChildInput& input = state.input;
  // execd needs it at least until it stands in its root (execd/gate.h).
  constexpr uint64_t kForExecd = uint64_t{1} << CAP_SYS_CHROOT;
  ATOLL_ASSIGN(state.score,
               EnterUserNamespace(input.user_namespace, input.pass, state.sysctls.get(),
                                  input.host->config.capabilities, kForExecd));
  return {};
}

Status LoadSeccomp(SlotState& state) {
  return LoadFilter(WithPass(state.input.host->filter, state.input.pass));
}

struct SlotStep {
  Step step;
  Status (*run)(SlotState&);
};
// The order matters. The user namespace comes after the last mount, because it has no rights over
// the mount namespace. The filter comes before it, as the host's root, because root's filters load
// even when the budget is used up (seccomp.h).
constexpr SlotStep kSteps[] = {
    {Step::kNamespaces, FurnishNamespaces},
    {Step::kTree, MountTree},
    {Step::kProc, MountProcOfSlot},
    {Step::kMask, MaskProcOfSlot},
    {Step::kRlimits, SetProcessLimits},
    {Step::kSeccomp, LoadSeccomp},
    {Step::kUser, EnterUser},
};

// Runs everything up to execve. Its own function, so that what it allocates is freed before.
Result<int> RunSteps(const SlotChildInput& input, SlotChildReport* report) {
  const Clock& clock = SystemClock();
  int64_t then = clock.BootMicros();
  report->micros[static_cast<size_t>(Step::kClone)] =
      static_cast<uint32_t>(then - report->done_at_us);
  SlotState state{.input = input, .sysctls = {}, .score = {}};
  for (const SlotStep& step : kSteps) {
    report->step = step.step;
    ATOLL_TRY(step.run(state));
    const int64_t now = clock.BootMicros();
    report->micros[static_cast<size_t>(step.step)] = static_cast<uint32_t>(now - then);
    then = now;
  }
  report->step = Step::kExec;
  return PlaceDescriptors(*input.host, {.gate = input.gate,
                                        .control = input.control,
                                        .listener = input.listener,
                                        .commands = input.commands,
                                        .score = state.score.get(),
                                        .command_tasks = input.command_tasks,
                                        .accounts = input.accounts});
}

struct Start {
  const SlotChildInput* input;
  SlotChildReport* report;
};

void RunChild(void* argument) {
  const auto* start = static_cast<const Start*>(argument);
  SlotChildReport* report = start->report;
  int execd = -1;
  {
    Result<int> placed = RunSteps(*start->input, report);
    if (placed) {
      execd = *placed;
    } else {
      report->status = Fail(std::move(placed).error());
    }
  }
  if (execd < 0) ::_exit(126);
  report->done_at_us = SystemClock().BootMicros();
  report->status = Status();
  ExecuteExecd(execd, "--enter-root=1");
  report->status = FailSys("execveat execd");
  ::_exit(126);
}

}  // namespace

Result<pid_t> StartSlotChild(const SlotChildInput& input, SlotChildReport* report) {
  Start start{&input, report};
  report->done_at_us = SystemClock().BootMicros();
  return Vfork(
      CLONE_PARENT | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
      input.group, RunChild, &start);
}

}  // namespace atl::spawner
