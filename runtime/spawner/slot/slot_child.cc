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

// Before the daemon makes the link, which takes the defaults of that moment.
Status FurnishNetwork(const SlotState& state) {
  ATOLL_TRY(SetNetworkDefaults(state.sysctls.get()));
  const UniqueFd links(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!links) return FailSys("socket NETLINK_ROUTE");
  const int fds[] = {links.get()};
  return sys::SendMessage(state.input.network, "+", fds);
}

}  // namespace

Status FurnishNamespaces(SlotState& state) {
  const SlotChildInput& input = state.input;
  if (input.network_namespace >= 0 && ::setns(input.network_namespace, CLONE_NEWNET) != 0) {
    return FailSys("setns net");
  }
  // v1 groups (27 µs each): a process enters by writing "0" itself, to "tasks" and not to
  // cgroup.procs, which would wait for an RCU grace period.
  for (int tasks : input.tasks) ATOLL_TRY(sys::WriteAll(tasks, "0"));
  ::setsid();
  if (::setns(input.cgroup_namespace, CLONE_NEWCGROUP) != 0) return FailSys("setns cgroup");
  return {};
}

Status MountTree(SlotState& state) {
  const SlotChildInput& input = state.input;
  return AssembleMounts(*input.host, input.base, input.id_map, input.limits.shm_bytes, input.views);
}

Status MountProcOfSlot(SlotState& state) {
  ATOLL_TRY(MountProc());
  ATOLL_ASSIGN(state.sysctls, sys::Open("/proc/sys", O_RDONLY | O_DIRECTORY));
  return FurnishNetwork(state);
}

Status SetProcessLimits(SlotState&) {
  return LimitProcess(0);
}

namespace {

Status MaskProcOfSlot(SlotState& state) {
  ATOLL_TRY(MaskProc("/empty", state.input.base));
  return CoverDescriptors("/streams");
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

Result<int> PlaceForExecd(const SlotState& state) {
  const SlotChildInput& input = state.input;
  return PlaceDescriptors({.program = input.host->execd.get(),
                           .gate = input.gate,
                           .control = input.control,
                           .listener = input.listener,
                           .commands = input.commands,
                           .score = state.score.get(),
                           .command_tasks = input.command_tasks,
                           .accounts = input.accounts});
}

struct Start {
  const SlotChildInput* input;
  const SlotProgram* program;
  SlotChildReport* report;
};

// Runs everything up to execve. Its own function, so that what it allocates is freed before.
Result<int> RunSteps(const Start& start) {
  const SlotChildInput& input = *start.input;
  SlotChildReport* report = start.report;
  const Clock& clock = SystemClock();
  int64_t then = clock.BootMicros();
  report->micros[static_cast<size_t>(Step::kClone)] =
      static_cast<uint32_t>(then - report->done_at_us);
  SlotState state{.input = input, .sysctls = {}, .score = {}, .tun = {}, .sync = {}};
  for (const SlotStep& step : start.program->steps) {
    report->step = step.step;
    ATOLL_TRY(step.run(state));
    const int64_t now = clock.BootMicros();
    report->micros[static_cast<size_t>(step.step)] = static_cast<uint32_t>(now - then);
    then = now;
  }
  report->step = Step::kExec;
  return start.program->place(state);
}

void RunChild(void* argument) {
  const auto* start = static_cast<const Start*>(argument);
  SlotChildReport* report = start->report;
  int first = -1;
  {
    Result<int> placed = RunSteps(*start);
    if (placed) {
      first = *placed;
    } else {
      report->status = Fail(std::move(placed).error());
    }
  }
  if (first < 0) ::_exit(126);
  report->done_at_us = SystemClock().BootMicros();
  report->status = Status();
  ExecuteFirst(first, start->program->name, start->program->option);
  report->status = FailSys(std::string("execveat ") + start->program->name);
  ::_exit(126);
}

}  // namespace

const SlotProgram kExecdProgram{kSteps, PlaceForExecd, "execd", "--enter-root=1"};

Result<pid_t> StartSlotChild(const SlotChildInput& input, const SlotProgram& program,
                             SlotChildReport* report) {
  Start start{&input, &program, report};
  report->done_at_us = SystemClock().BootMicros();
  const uint64_t network = input.network_namespace < 0 ? CLONE_NEWNET : 0;
  return Vfork(CLONE_PARENT | network | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
               input.group, RunChild, &start);
}

}  // namespace atl::spawner
