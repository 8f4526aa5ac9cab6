#include "runtime/spawner/slot_child.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/namespaces.h"
#include "runtime/spawner/slot_mounts.h"
#include "runtime/spawner/slot_proc.h"
#include "runtime/spawner/vfork_clone.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
namespace {

using wire::Step;

// Missing ones are passed over: IPv6 may be switched off on the host. The first two give
// unprivileged programs what they have in every container: ports below 1024 and ping. The rest
// keeps the kernel from sending or accepting anything that the host did not set up (addresses,
// routes, neighbours are all static).
struct Sysctl {
  const char* path;
  const char* value;
};
constexpr Sysctl kSysctls[] = {
    {"net/ipv4/ip_unprivileged_port_start", "0"}, {"net/ipv4/ping_group_range", "0 4294967294"},
    {"net/ipv6/conf/all/accept_ra", "0"},         {"net/ipv6/conf/default/accept_ra", "0"},
    {"net/ipv6/conf/default/accept_dad", "0"},    {"net/ipv6/conf/default/autoconf", "0"},
};

struct SlotState {
  const SlotChildInput& input;
  // /proc/sys of the slot's own /proc, from before it became read-only. Not the host's: there each
  // namespace leaves a dentry of the same name behind, and with a thousand sandboxes each look-up
  // goes through a thousand of them (8 ms for a slot, 0.2 here).
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

// Before the daemon makes the link, which takes over what is the default then.
Status FurnishNetwork(const SlotState& state) {
  for (const Sysctl& sysctl : kSysctls) {
    Status written = sys::WriteFileAt(state.sysctls.get(), sysctl.path, sysctl.value);
    if (!written && written.error().error_number() != ENOENT) return written;
  }
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
  return MaskProc();
}

// `mask` for everything in the sandbox, and CAP_SYS_CHROOT for execd until it stands in its root
// (execd/gate.h). That comes through execve by being inheritable: what the bounding set has, every
// program of root's would get.
Status SetCapabilities(uint64_t mask) {
  constexpr uint64_t kForExecd = uint64_t{1} << CAP_SYS_CHROOT;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return FailSys("capget");
  // First: nothing becomes inheritable that the bounding set has not.
  data[0].inheritable = static_cast<uint32_t>(kForExecd);
  data[1].inheritable = 0;
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset inheritable");
  for (int capability = 0;; ++capability) {
    if (mask >> capability & 1) continue;
    // EINVAL: past the last one that this kernel knows.
    if (::prctl(PR_CAPBSET_DROP, capability) != 0) {
      if (errno == EINVAL && capability > CAP_MKNOD) break;
      return FailSys("PR_CAPBSET_DROP " + std::to_string(capability));
    }
  }
  const uint64_t own = mask | kForExecd;
  data[0].effective = data[0].permitted = static_cast<uint32_t>(own);
  data[1].effective = data[1].permitted = static_cast<uint32_t>(own >> 32);
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset");
  return {};
}

Status EnterUserNamespace(SlotState& state) {
  // As long as it is ours. What is written with CAP_SYS_RESOURCE becomes the lowest that anybody in
  // the sandbox can go back to, whatever we were started with.
  ATOLL_ASSIGN(state.score, sys::Open("/proc/self/oom_score_adj", O_WRONLY));
  ATOLL_TRY(sys::WriteAll(state.score.get(), "0"));
  // Not readable from inside while it turns into the sandbox's root (CVE-2016-9962); execve of a
  // program that the caller may not read keeps it so.
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return FailSys("PR_SET_DUMPABLE");
  if (::syscall(SYS_setns, state.input.user_namespace, CLONE_NEWUSER, 0, 0, 0, state.input.pass) !=
      0) {
    return FailSys("setns user");
  }
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(0, 0, 0) != 0) return FailSys("setresgid 0");
  if (::setresuid(0, 0, 0) != 0) return FailSys("setresuid 0");
  // Entering the namespace has filled every set, the bounding set too (user_namespaces(7)).
  ATOLL_TRY(SealNamespaceLimits(state.sysctls.get()));
  return SetCapabilities(state.input.host->config.capabilities);
}

Status SetProcessLimits(SlotState&) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("PR_SET_NO_NEW_PRIVS");
  // The kernel's word for "not even by a pipe" (call_checks.cc keeps it so).
  const rlimit no_core{1, 1};
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) return FailSys("setrlimit CORE");
  // The classic soft limit, so that programs that loop over all descriptors stay quick; the hard
  // limit as high as the host allows.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("getrlimit NOFILE");
  files.rlim_max = std::min<rlim_t>(files.rlim_max, 1U << 20);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 16384);
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("setrlimit NOFILE");
  ::umask(022);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < NSIG; ++signal) {
    [[maybe_unused]] const auto before = ::signal(signal, SIG_DFL);
  }
  return {};
}

Status LoadSeccomp(SlotState& state) {
  return LoadFilter(WithPass(state.input.host->filter, state.input.pass));
}

struct SlotStep {
  Step step;
  Status (*run)(SlotState&);
};
// In this order for reasons: the user namespace after the last mount, because it has no rights over
// the mount namespace; the filter before it, as the host's root, whom no budget stops (seccomp.h).
constexpr SlotStep kSteps[] = {
    {Step::kNamespaces, FurnishNamespaces}, {Step::kTree, MountTree},
    {Step::kProc, MountProcOfSlot},         {Step::kMask, MaskProcOfSlot},
    {Step::kRlimits, SetProcessLimits},     {Step::kSeccomp, LoadSeccomp},
    {Step::kUser, EnterUserNamespace},
};

// Descriptors land on the numbers of wire/start.h; everything else closes at execve. Sources are
// first lifted above the targets, so that no target overwrites a source. Returns execd's own.
Result<int> PlaceDescriptors(const SlotState& state) {
  const SlotChildInput& input = state.input;
  constexpr int kAbove = 64;
  std::vector<std::pair<int, int>> moves;
  const auto lift = [&](int from, int to) -> Status {
    const int lifted = ::fcntl(from, F_DUPFD_CLOEXEC, kAbove);
    if (lifted < 0) return FailSys("fcntl F_DUPFD_CLOEXEC");
    moves.emplace_back(lifted, to);
    return {};
  };
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return FailSys("open /dev/null");
  for (int standard = 0; standard <= 2; ++standard) ATOLL_TRY(lift(null.get(), standard));
  ATOLL_TRY(lift(input.gate, wire::kExecdGateFd));
  ATOLL_TRY(lift(input.control, wire::kExecdControlFd));
  ATOLL_TRY(lift(input.listener, wire::kExecdListenFd));
  ATOLL_TRY(lift(input.commands, wire::kExecdCgroupFd));
  int next = wire::kExecdFirstTasksFd;
  for (int tasks : input.command_tasks) ATOLL_TRY(lift(tasks, next++));
  int account = wire::kExecdAccountsFd;
  for (int file : input.accounts) ATOLL_TRY(lift(file, account++));
  ATOLL_TRY(lift(state.score.get(), wire::kExecdScoreFd));
  const int execd = ::fcntl(input.host->execd.get(), F_DUPFD_CLOEXEC, kAbove);
  if (execd < 0) return FailSys("fcntl F_DUPFD_CLOEXEC");
  for (const auto& [from, to] : moves) {
    if (::dup3(from, to, 0) < 0) return FailSys("dup3");
  }
  for (const auto& [first, last] :
       {std::pair{static_cast<unsigned>(next), unsigned{wire::kExecdAccountsFd} - 1},
        {static_cast<unsigned>(account), unsigned{wire::kExecdScoreFd} - 1},
        {unsigned{wire::kExecdScoreFd} + 1, ~0u}}) {
    if (first > last) continue;
    if (::close_range(first, last, CLOSE_RANGE_CLOEXEC) != 0) return FailSys("close_range");
  }
  return execd;
}

// Everything up to execve. Its own function, so that what it allocates is freed before.
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
  return PlaceDescriptors(state);
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
  char name[] = "execd";
  // execd/options.h.
  char enter_root[] = "--enter-root=1";
  char* const argv[] = {name, enter_root, nullptr};
  char* const envp[] = {nullptr};
  report->done_at_us = SystemClock().BootMicros();
  report->status = Status();
  // Linux 3.19: no path, so nothing in the sandbox leads to the program's file; /proc/1/exe is a
  // sealed memfd that no one in there may read (CVE-2019-5736).
  ::syscall(SYS_execveat, execd, "", argv, envp, AT_EMPTY_PATH);
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
