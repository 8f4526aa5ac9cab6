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

#include <cerrno>
#include <new>

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

// Everything the child needs, prepared before the clone: it may not allocate.
struct ChildPlan {
  const SpawnSpec* spec;
  std::vector<char*> argv, env;
  Failure* failure;
  int procs = -1;  // cgroup.procs of the leaf, for a child that was not born there
};

[[noreturn]] void Give(ChildPlan* plan, Step step) {
  plan->failure->step = step;
  plan->failure->error = errno;
  ::_exit(127);
}

// Where a child with memory of its own can leave it; null if there is no memory.
Failure* SharedFailure() {
  static void* const page =
      ::mmap(nullptr, sizeof(Failure), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? nullptr : new (page) Failure;
}

// Programs size themselves by the processors that they may run on: as many as the limit amounts to.
// Which, the scheduler has just said by putting the child on the idlest; its neighbours follow. The
// quota is what holds, so that this may fail, and be undone from inside. Raw calls: the C library
// reads the processor's number from the parent's memory.
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
  // Raw calls: the C library's wrappers would look for threads to signal.
  if (::syscall(SYS_setgroups, who.groups.size(), who.groups.data()) != 0 ||
      ::syscall(SYS_setresgid, who.gid, who.gid, who.gid) != 0 ||
      ::syscall(SYS_setresuid, who.uid, who.uid, who.uid) != 0) {
    Give(plan, Step::kIdentity);
  }
}

// execvp's rules: go on after "not there", remember "not allowed".
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

// Runs in the child, mostly on memory shared with the parent, which waits. Only system calls from
// here.
[[noreturn]] __attribute__((noinline)) void Child(ChildPlan* plan) {
  const SpawnSpec& spec = *plan->spec;
  if (plan->procs >= 0 && ::write(plan->procs, "0", 1) != 1) Give(plan, Step::kLeaf);
  // execd's, whose file this is; ours stays.
  if (HasScore(spec) && ::write(spec.score, "0", 1) != 1) Give(plan, Step::kScore);
  if (spec.controlling_tty) {
    ::setsid();
  } else {
    ::setpgid(0, 0);
  }
  // "0" is the writer itself: never waits for a grace period, unlike cgroup.procs.
  for (const int tasks : spec.tasks) {
    if (::write(tasks, "0", 1) != 1) Give(plan, Step::kTasks);
  }
  if (spec.cpus > 0) StayOn(spec.cpus);
  // execd's own three are never free, so these are all above 2 and dup2 clears close-on-exec.
  for (int i = 0; i < 3; ++i) {
    if (::dup2(spec.stdio[i], i) < 0) Give(plan, Step::kStdio);
  }
  // Whatever is number 3 with us is in use by none of these any more.
  if (spec.report >= 0 && ::dup2(spec.report, 3) < 0) Give(plan, Step::kStdio);
  if (spec.controlling_tty && ::ioctl(0, TIOCSCTTY, 0) != 0) Give(plan, Step::kTty);
  EnterIdentity(plan);
  // After the change of identity: the directory's permissions count for the user.
  if (spec.cwd >= 0 && ::fchdir(spec.cwd) != 0) Give(plan, Step::kCwd);
  // Last: until here a signal could have run nothing of ours, but must not kill a half-made child
  // whose parent is suspended in vfork either.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  Exec(plan);
  __builtin_unreachable();
}

// clone3 as an inline instruction: parent and child come back to this very frame, the child first.
// A library function could not do this, because the child would return from it and overwrite the
// parent's return address (vfork(2) has the same problem and solves it in assembly). The sixth
// argument, which the call does not take, is for the sandbox's filter; execve clears its register.
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

}  // namespace

void GivePipes(std::span<const int> stdio, const Identity& user) {
  if (user.uid == 0) return;
  for (const int fd : stdio) {
    struct stat info;
    if (::fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode) || info.st_uid == user.uid) continue;
    // What goes on without it is only the opening by name.
    [[maybe_unused]] const int given = ::fchown(fd, user.uid, static_cast<gid_t>(-1));
  }
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
  // Inherited: what /proc has of the child is the host's until its program runs, which may be after
  // we do.
  if (HasScore(spec)) ATOLL_TRY(sys::WriteAll(spec.score, wire::kOomScore));
  long pid = CloneAndRun(&args, &plan);
  if (pid == -EAGAIN && spec.leaf) {
    // The sandbox's processes have used its limit up. Beside execd there is a reserve, which none
    // of them can be born in; a process may still be moved into a full group.
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
  // It has ended already; nobody else may see its exit.
  while (::waitpid(static_cast<pid_t>(pid), nullptr, 0) < 0 && errno == EINTR) {
  }
  return Fail(ChildError(plan));
}

}  // namespace atl::execd
