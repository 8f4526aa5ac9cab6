#include "runtime/spawner/kernel/vfork_clone.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

constexpr size_t kStackSize = 256 << 10;
constexpr size_t kMostNested = 2;
constexpr size_t kIdleStackSize = 16 << 10;

// The lowest page faults, so that an overflow is found.
void* MapStack(size_t size) {
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory != MAP_FAILED) ::mprotect(memory, 4096, PROT_NONE);
  return memory;
}

// glibc has no wrapper for clone3, and none can be written in C, because the child returns on
// another stack, where no frame of the caller is. Registers other than rax, rcx and r11 survive the
// call (syscall(2)).
long Clone3(clone_args* args, void (*run)(void*), void* argument) {
  long result;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[run]\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "0"(SYS_clone3), "D"(args), "S"(sizeof *args), [run] "r"(run), [argument] "r"(argument)
      : "rcx", "r11", "memory");
  return result;
}

Result<pid_t> CloneOnStack(clone_args args, void* stack, size_t stack_size, void (*run)(void*),
                           void* argument) {
  if (stack == MAP_FAILED) return FailSys("mmap stack");
  args.flags |= CLONE_VM;
  // clone3 takes the exit signal of a sibling (CLONE_PARENT) from the caller itself.
  if ((args.flags & CLONE_PARENT) == 0) args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<uint64_t>(stack);
  args.stack_size = stack_size;
  const long pid = Clone3(&args, run, argument);
  if (pid < 0) return Fail(SysError("clone3", static_cast<int>(-pid)));
  return static_cast<pid_t>(pid);
}

// No call here fails, so errno, which both sides share, stays as it is.
void Idle(void* parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the prctl. Then nobody would end this process, which holds
  // copies of all descriptors.
  if (::getppid() != static_cast<pid_t>(reinterpret_cast<intptr_t>(parent))) ::_exit(0);
  for (;;) ::pause();
}

}  // namespace

Result<pid_t> Vfork(uint64_t flags, int cgroup, void (*run)(void*), void* argument) {
  // Kept for ever. A child has at most one such child, and is the only child of its parent.
  static std::array<void*, kMostNested> stacks{};
  static size_t nested = 0;
  const size_t level = nested;
  if (level == kMostNested) return Fail(Code::kInternal, "vfork: nested too deep");
  if (stacks[level] == nullptr) stacks[level] = MapStack(kStackSize);
  nested = level + 1;
  clone_args args{};
  args.flags = flags | CLONE_VFORK;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(cgroup);
  }
  auto pid = CloneOnStack(args, stacks[level], kStackSize, run, argument);
  // Set, not decremented: a child that was killed in there has left another value.
  nested = level;
  StayUndumpable();
  return pid;
}

Result<pid_t> StartIdle(uint64_t flags) {
  static void* const stack = MapStack(kIdleStackSize);
  clone_args args{};
  args.flags = flags;
  const intptr_t parent = ::getpid();
  return CloneOnStack(args, stack, kIdleStackSize, Idle, reinterpret_cast<void*>(parent));
}

}  // namespace atl::spawner
