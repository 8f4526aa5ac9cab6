#include "runtime/spawner/sandbox_child.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/root_steps.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
namespace {

using wire::Step;

Status EnterNamespaces(ChildState& state) {
  // v1 groups first (27 µs each): a process enters by writing "0" itself, to "tasks" and not to
  // cgroup.procs, which would wait for an RCU grace period.
  for (int tasks : state.input->tasks) ATOLL_TRY(sys::WriteAll(tasks, "0"));
  ::setsid();
  if (::setns(state.input->slot->network.get(), CLONE_NEWNET) != 0) {
    return FailSys("setns network");
  }
  if (::setns(state.input->slot->cgroup.get(), CLONE_NEWCGROUP) != 0) {
    return FailSys("setns cgroup");
  }
  // What this process creates on file systems from here on belongs to the sandbox's root. The file
  // system capabilities must stay (no fix-up), and overlayfs must be mounted so: mounted by fsuid
  // 0, which the id-mapped upper does not know, it would silently be read-only.
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0) return FailSys("PR_SET_SECUREBITS");
  const uid_t base = state.input->host->IdBase(state.input->plan->slot);
  ::setfsgid(base);
  ::setfsuid(base);
  if (static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) != base) {
    return Fail(Code::kInternal, "setfsuid " + std::to_string(base) + ": refused");
  }
  ::umask(0);
  return {};
}

Status SetCapabilities(uint64_t mask) {
  for (int capability = 0;; ++capability) {
    if (mask >> capability & 1) continue;
    // EINVAL: past the last one that this kernel knows.
    if (::prctl(PR_CAPBSET_DROP, capability) != 0) {
      if (errno == EINVAL && capability > CAP_MKNOD) break;
      return FailSys("PR_CAPBSET_DROP " + std::to_string(capability));
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  data[0].effective = data[0].permitted = static_cast<uint32_t>(mask);
  data[1].effective = data[1].permitted = static_cast<uint32_t>(mask >> 32);
  if (::syscall(SYS_capset, &header, data) != 0) return FailSys("capset");
  return {};
}

Status EnterUserNamespace(ChildState& state) {
  // Not readable from inside while it turns into the sandbox's root (CVE-2016-9962); execve of a
  // program that the caller may not read keeps it so.
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return FailSys("PR_SET_DUMPABLE");
  if (::setns(state.input->slot->user.get(), CLONE_NEWUSER) != 0) return FailSys("setns user");
  if (::setgroups(0, nullptr) != 0) return FailSys("setgroups");
  if (::setresgid(0, 0, 0) != 0) return FailSys("setresgid 0");
  if (::setresuid(0, 0, 0) != 0) return FailSys("setresuid 0");
  // Entering the namespace has filled every set, the bounding set too (user_namespaces(7)).
  return SetCapabilities(state.input->host->config.capabilities);
}

Status SetProcessLimits(ChildState&) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailSys("PR_SET_NO_NEW_PRIVS");
  const rlimit no_core{0, 0};
  if (::setrlimit(RLIMIT_CORE, &no_core) != 0) return FailSys("setrlimit CORE");
  // The classic soft limit, so that programs that loop over all descriptors stay quick; the hard
  // limit as high as the host allows.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("getrlimit NOFILE");
  files.rlim_max = std::min<rlim_t>(files.rlim_max, 1 << 20);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 1024 * 16);
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("setrlimit NOFILE");
  ::umask(022);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  return {};
}

Status LoadSeccomp(ChildState& state) {
  return LoadFilter(state.input->host->filter);
}

struct ChildStep {
  Step step;
  Status (*run)(ChildState&);
};
// In this order for reasons: namespaces before anything is mounted, because sysfs shows the network
// namespace it was mounted from and needs rights over it that the user namespace will not have; the
// user namespace after the last mount; the filter last.
constexpr ChildStep kSteps[] = {
    {Step::kNamespaces, EnterNamespaces},
    {Step::kStore, AttachStore},
    {Step::kOverlay, MountOverlay},
    {Step::kProc, MountProc},
    {Step::kSys, MountSys},
    {Step::kDev, MountDev},
    {Step::kEtc, MountEtc},
    {Step::kMask, MaskPaths},
    {Step::kPivot, PivotRoot},
    {Step::kUser, EnterUserNamespace},
    {Step::kRlimits, SetProcessLimits},
    {Step::kSeccomp, LoadSeccomp},
};

// Descriptors land on the numbers of wire/start.h; everything else closes at execve. Sources are
// first lifted above the targets, so that no target overwrites a source.
Result<int> PlaceDescriptors(const ChildInput& input, int* execd, int* status) {
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
  ATOLL_TRY(lift(input.control, wire::kExecdControlFd));
  ATOLL_TRY(lift(input.listener, wire::kExecdListenFd));
  ATOLL_TRY(lift(input.commands, wire::kExecdCgroupFd));
  int next = wire::kExecdFirstTasksFd;
  for (int tasks : input.command_tasks) ATOLL_TRY(lift(tasks, next++));
  *execd = ::fcntl(input.host->execd.get(), F_DUPFD_CLOEXEC, kAbove);
  *status = ::fcntl(input.status, F_DUPFD_CLOEXEC, kAbove);
  if (*execd < 0 || *status < 0) return FailSys("fcntl F_DUPFD_CLOEXEC");
  for (const auto& [from, to] : moves) {
    if (::dup3(from, to, 0) < 0) return FailSys("dup3");
  }
  return next;
}

void Report(int status, const ChildReport& report) {
  [[maybe_unused]] const Status sent = sys::WriteAll(status, report.Encode());
}

[[noreturn]] void Abort(int status, ChildReport report, Step step, const Error& error) {
  report.failed = true;
  report.step = step;
  report.code = error.code();
  report.error_number = error.error_number();
  report.message = error.message().substr(0, kMaxChildReport / 2);
  Report(status, report);
  ::_exit(126);
}

}  // namespace

std::string ChildReport::Encode() const {
  wire::Writer writer;
  writer.U8(failed ? 1 : 0);
  writer.U8(static_cast<uint8_t>(step));
  writer.I64(error_number);
  writer.U8(static_cast<uint8_t>(code));
  for (uint32_t value : micros) writer.U32(value);
  writer.I64(done_at_us);
  writer.Text(message);
  return writer.Take();
}

Result<ChildReport> DecodeChildReport(std::string_view bytes) {
  wire::Reader reader(bytes);
  ChildReport report;
  report.failed = reader.U8() != 0;
  report.step = static_cast<Step>(reader.U8());
  report.error_number = static_cast<int>(reader.I64());
  report.code = static_cast<Code>(reader.U8());
  for (uint32_t& value : report.micros) value = reader.U32();
  report.done_at_us = reader.I64();
  report.message = reader.Text();
  if (!reader.complete()) return Fail(Code::kInternal, "report of a build: malformed");
  return report;
}

void RunSandboxChild(const ChildInput& input, int64_t cloned_at_us) {
  const Clock& clock = SystemClock();
  ChildReport report;
  ChildState state;
  state.input = &input;
  int64_t then = clock.BootMicros();
  const auto lap = [&](Step step) {
    const int64_t now = clock.BootMicros();
    report.micros[static_cast<size_t>(step)] = static_cast<uint32_t>(now - then);
    then = now;
  };
  report.micros[static_cast<size_t>(Step::kClone)] = static_cast<uint32_t>(then - cloned_at_us);
  for (const ChildStep& step : kSteps) {
    const Status done = step.run(state);
    if (!done) Abort(input.status, report, step.step, done.error());
    lap(step.step);
  }
  int execd = -1;
  int status = -1;
  const auto first_free = PlaceDescriptors(input, &execd, &status);
  if (!first_free) Abort(input.status, report, Step::kExec, first_free.error());
  ::close_range(static_cast<unsigned>(*first_free), ~0u, CLOSE_RANGE_CLOEXEC);
  report.done_at_us = clock.BootMicros();
  Report(status, report);
  char name[] = "execd";
  char* const argv[] = {name, nullptr};
  char* const envp[] = {nullptr};
  // Linux 3.19: no path, so nothing in the sandbox leads to the program's file; /proc/1/exe is a
  // sealed memfd that no one in there may read (CVE-2019-5736).
  ::syscall(SYS_execveat, execd, "", argv, envp, AT_EMPTY_PATH);
  Abort(status, report, Step::kExec, SysError("execveat execd"));
}

}  // namespace atl::spawner
