#include "runtime/spawner/vfork_clone.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace atl::spawner {
namespace {

constexpr size_t kStackSize = 256 << 10;

// One stack for ever: there is one child at a time, by CLONE_VFORK. Below it lies a page that
// faults.
Result<void*> ChildStack() {
  static void* const stack = [] {
    void* memory = ::mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory != MAP_FAILED) ::mprotect(memory, 4096, PROT_NONE);
    return memory;
  }();
  if (stack == MAP_FAILED) return FailSys("mmap stack");
  return stack;
}

// glibc has no wrapper for clone3, and none can be written in C: the child comes back on another
// stack, where no frame of the caller is. Registers other than rax, rcx and r11 survive the call
// (syscall(2)).
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

}  // namespace

Result<pid_t> VforkInto(uint64_t namespaces, int cgroup, void (*run)(void*), void* argument) {
  ATOLL_ASSIGN(void* const stack, ChildStack());
  clone_args args{};
  args.flags = namespaces | CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(cgroup);
  args.stack = reinterpret_cast<uint64_t>(stack);
  args.stack_size = kStackSize;
  const long pid = Clone3(&args, run, argument);
  if (pid < 0) return Fail(SysError("clone3", static_cast<int>(-pid)));
  return static_cast<pid_t>(pid);
}

}  // namespace atl::spawner
