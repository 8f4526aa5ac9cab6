#include "execd/run/spawn.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/wire/start.h"

namespace atl::execd {
namespace {

enum class Step { kNone, kLeaf, kScore, kTasks, kStdio, kTty, kIdentity, kCwd, kExec };

struct Failure {
  Step step = Step::kNone;
  int error = 0;
  size_t program = 0;
};

// Everything that the child needs. Prepared before the clone, because the child may not allocate.
struct ChildPlan {
  const SpawnSpec* spec;
  std::vector<char*> argv, env;
  Failure* failure;
  int procs = -1;  // cgroup.procs of the leaf, if the child was not cloned into it
};

[[noreturn]] void Give(ChildPlan* plan, Step step) {
  plan->failure->step = step;
  plan->failure->error = errno;
  ::_exit(127);
}

// Returns shared memory in which a child with memory of its own reports a failure, or null if there
// is no memory.
Failure* SharedFailure() {
  static void* const page =
      ::mmap(nullptr, sizeof(Failure), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : new (page) Failure;
}

// Limits the child to as many CPUs as its CPU limit amounts to, because programs size themselves by
// the CPUs that they may use. The child stays on its present CPU, which the scheduler chose because
// it was the most idle, and the next ones. The quota enforces the limit, so this may fail, and the
// sandbox may undo it. Raw system calls, because the C library reads the CPU's number from the
// parent's memory.
void StayOn(int count) {
  unsigned here = 0;
  cpu_set_t allowed, chosen;
  CPU_ZERO(&allowed);
  CPU_ZERO(&chosen);
  if (::syscall(SYS_getcpu, &here, nullptr, nullptr) != 0 ||
      ::syscall(SYS_sched_getaffinity, 0, sizeof allowed, &allowed) < 0) {
    return;
  }
  if (count >= CPU_COUNT(&allowed)) return;
  for (size_t i = 0; i < CPU_SETSIZE && count > 0; ++i) {
    const size_t cpu = (here + i) % CPU_SETSIZE;
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_SET(cpu, &chosen);
    --count;
  }
  ::syscall(SYS_sched_setaffinity, 0, sizeof chosen, &chosen);
}

void EnterIdentity(ChildPlan* plan) {
  const Identity& who = *plan->spec->identity;
  // Raw system calls, because the C library's wrappers would look for threads to signal.
  if (::syscall(SYS_setgroups, who.groups.size(), who.groups.data()) != 0 ||
      ::syscall(SYS_setresgid, who.gid, who.gid, who.gid) != 0 ||
      ::syscall(SYS_setresuid, who.uid, who.uid, who.uid) != 0) {
    Give(plan, Step::kIdentity);
  }
}

// Follows execvp: continues after ENOENT and the like, and remembers EACCES.
void Exec(ChildPlan* plan) {
  int error = ENOENT;
  size_t which = 0;
  for (size_t i = 0; i < plan->spec->programs.size(); ++i) {
    ::execve(plan->spec->programs[i].c_str(), plan->argv.data(), plan->env.data());
    if (errno == ENOENT || errno == ENOTDIR) continue;
    error = errno;
    which = i;
    if (errno != EACCES) break;
  }
  errno = error;
  plan->failure->program = which;
  Give(plan, Step::kExec);
}

bool HasScore(const SpawnSpec& spec) {
  return spec.score >= 0 && !spec.spared;
}

// Runs in the child, usually on memory shared with the suspended parent. Makes only system calls.
[[noreturn]] __attribute__((noinline)) void Child(ChildPlan* plan) {
  const SpawnSpec& spec = *plan->spec;
  if (plan->procs >= 0 && ::write(plan->procs, "0", 1) != 1) Give(plan, Step::kLeaf);
  // Resets execd's score, because the file is execd's. The child keeps its own score.
  if (HasScore(spec) && ::write(spec.score, "0", 1) != 1) Give(plan, Step::kScore);
  if (spec.controlling_tty) {
    ::setsid();
  } else {
    ::setpgid(0, 0);
  }
  // "0" means the writer itself. This never waits for a grace period, unlike cgroup.procs.
  for (const int tasks : spec.tasks) {
    if (::write(tasks, "0", 1) != 1) Give(plan, Step::kTasks);
  }
  if (spec.cpus > 0) StayOn(spec.cpus);
  // execd's descriptors 0 to 2 are never free, so all of these are above 2, and dup2 clears
  // close-on-exec.
  for (int i = 0; i < 3; ++i) {
    if (::dup2(spec.stdio[i], i) < 0) Give(plan, Step::kStdio);
  }
  // execd's descriptor 3, if any, is no longer needed here, so dup2 may replace it.
  if (spec.report >= 0 && ::dup2(spec.report, 3) < 0) Give(plan, Step::kStdio);
  if (spec.controlling_tty && ::ioctl(0, TIOCSCTTY, 0) != 0) Give(plan, Step::kTty);
  EnterIdentity(plan);
  // After the change of identity, so that the directory's permissions count for the user.
  if (spec.cwd >= 0 && ::fchdir(spec.cwd) != 0) Give(plan, Step::kCwd);
  // Last. Until here no signal handler of execd can run, and no signal may kill a half-made child
  // whose parent is suspended in vfork.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  Exec(plan);
  __builtin_unreachable();
}

// Calls clone3 by an inline instruction: parent and child both return to this frame, the child
// first. A library function cannot do this, because the child would return from it and overwrite
// the parent's return address (vfork(2) has the same problem and solves it in assembly). The sixth
// argument, which clone3 does not use, is for the sandbox's filter; execve clears its register.
__attribute__((noinline)) long CloneAndRun(clone_args* args, ChildPlan* plan) {
  long result;
  const uint64_t pass = plan->spec->pass;
#if defined(__x86_64__)
  register uint64_t r9 asm("r9") = pass;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(SYS_clone3), "D"(args), "S"(sizeof *args), "r"(r9)
               : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 asm("x8") = SYS_clone3;
  register long x0 asm("x0") = reinterpret_cast<long>(args);
  register long x1 asm("x1") = sizeof *args;
  register uint64_t x5 asm("x5") = pass;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x5) : "memory");
  result = x0;
#else
#error "clone3 for this architecture"
#endif
  if (result == 0) Child(plan);
  return result;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Error ChildError(const ChildPlan& plan) {
  const SpawnSpec& spec = *plan.spec;
  switch (plan.failure->step) {
    case Step::kLeaf:
      return SysError("enter leaf", plan.failure->error);
    case Step::kScore:
      return SysError("write oom_score_adj of process 1", plan.failure->error);
    case Step::kTasks:
      return SysError("enter cgroup", plan.failure->error);
    case Step::kStdio:
      return SysError("dup2", plan.failure->error);
    case Step::kTty:
      return SysError("ioctl TIOCSCTTY", plan.failure->error);
    case Step::kIdentity:
      return SysError("become uid " + std::to_string(spec.identity->uid) + " gid " +
                          std::to_string(spec.identity->gid),
                      plan.failure->error);
    case Step::kCwd:
      return SysError("chdir", plan.failure->error);
    case Step::kExec:
    case Step::kNone:
      break;
  }
  const bool searched = spec.programs.size() > 1 && plan.failure->error == ENOENT;
  const std::string& name =
      searched || spec.programs.empty() ? spec.argv.front() : spec.programs[plan.failure->program];
  return SysError("exec " + name, plan.failure->error);
}

// Allows as many moves into a cgroup at once as the reserve has pids, and five a second from then
// on. A move holds the kernel's cgroup_mutex, which all sandboxes of the host share, for 4 to 15
// ms.
bool MayMove() {
  constexpr int64_t kIntervalUs = 200'000;
  constexpr int64_t kBurstUs = 15 * kIntervalUs;
  static int64_t next_us = 0;
  const int64_t now_us = MonotonicMicros();
  if (next_us - now_us > kBurstUs) return false;
  next_us = std::max(next_us, now_us) + kIntervalUs;
  return true;
}

}  // namespace

void GivePipes(std::span<const int> stdio, const Identity& user) {
  if (user.uid == 0) return;
  for (const int fd : stdio) {
    struct stat info;
    if (::fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode) || info.st_uid == user.uid) continue;
    // Failure only prevents opening the pipe by name.
    [[maybe_unused]] const int given = ::fchown(fd, user.uid, static_cast<gid_t>(-1));
  }
}

Result<UniqueFd> AddScript(std::string_view script, SpawnSpec* spec) {
  if (script.size() <= kMaxArgument) {
    spec->argv.emplace_back(script);
    return UniqueFd();
  }
  // The first command closes the descriptor. The shell has opened the file a second time by then.
  ATOLL_ASSIGN(UniqueFd file,
               sys::SealedMemfd("script", "exec 3<&-; " + std::string(script), false));
  spec->report = file.get();
  spec->argv.emplace_back(". /proc/self/fd/3");
  return file;
}

Result<pid_t> Spawn(const SpawnSpec& spec) {
  ATOLL_CHECK(spec.identity != nullptr && !spec.argv.empty());
  GivePipes(spec.stdio, *spec.identity);
  ChildPlan plan;
  plan.spec = &spec;
  plan.argv = Pointers(spec.argv);
  plan.env = Pointers(spec.env);

  Failure failure;
  plan.failure = spec.own_memory ? SharedFailure() : &failure;
  if (plan.failure == nullptr) return Fail(SysError("mmap for a child's failure", ENOMEM));

  clone_args args{};
  args.flags = CLONE_VFORK | (spec.own_memory ? 0 : CLONE_VM);
  args.exit_signal = SIGCHLD;
  if (spec.leaf) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(spec.leaf->dir.get());
  }
  // Set before the clone and inherited, because the child's files in /proc belong to the host until
  // its execve, which may come after execd's next step.
  if (HasScore(spec)) ATOLL_TRY(sys::WriteAll(spec.score, wire::kOomScore));
  long pid = CloneAndRun(&args, &plan);
  if (pid == -EAGAIN && spec.leaf && MayMove()) {
    // The sandbox's processes have used up the limit on processes. execd has a reserve, in which no
    // child of the leaf can be cloned. But a process may still be moved into a full cgroup.
    auto procs = sys::OpenAt(spec.leaf->dir.get(), "cgroup.procs", O_WRONLY);
    if (procs) {
      plan.procs = procs->get();
      args.flags &= ~static_cast<uint64_t>(CLONE_INTO_CGROUP);
      args.cgroup = 0;
      pid = CloneAndRun(&args, &plan);
    }
  }
  if (pid < 0 && HasScore(spec)) ATOLL_TRY(sys::WriteAll(spec.score, "0"));
  if (pid < 0) return Fail(SysError("clone3", static_cast<int>(-pid)));
  if (plan.failure->step == Step::kNone) return static_cast<pid_t>(pid);
  // The child has ended already; no other part may see its exit.
  while (::waitpid(static_cast<pid_t>(pid), nullptr, 0) < 0 && errno == EINTR) {
  }
  return Fail(ChildError(plan));
}

}  // namespace atl::execd
