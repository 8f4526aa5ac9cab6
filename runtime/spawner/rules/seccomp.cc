#include "runtime/spawner/rules/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "runtime/spawner/rules/call_checks.h"
#include "runtime/spawner/rules/syscall_list.h"

namespace atl::spawner {
namespace {

constexpr uint32_t kX32Bit = 0x40000000;
// The number that a tracer (strace, gdb) puts in the place of a call that it takes back. It looks
// like a call of x32, but the kernel has no such call in any ABI and does nothing; the tracer
// supplies the result.
constexpr uint32_t kTakenBack = 0xffffffff;
constexpr uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

// A run of call numbers [first, next run's first) with one verdict, or one call whose arguments are
// checked.
struct CallRun {
  uint32_t first;
  BpfProgram verdict;
};

void Append(BpfProgram* program, const BpfProgram& part) {
  program->insert(program->end(), part.begin(), part.end());
}

enum class Scope { kSandbox, kSession };

constexpr uint32_t kNotInSessions[] = {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
                                       SYS_kcmp,   SYS_chroot,           SYS_personality};

BpfProgram VerdictOf(uint32_t number, Scope scope) {
  if (scope == Scope::kSession && std::find(std::begin(kNotInSessions), std::end(kNotInSessions),
                                            number) != std::end(kNotInSessions)) {
    return {Return(SECCOMP_RET_ERRNO | EACCES)};
  }
  if (auto checked = CheckArguments(number)) return *std::move(checked);
  if (IsMissingSyscall(number)) return {Return(kUnknown)};
  return {Return(IsAllowedSyscall(number) ? SECCOMP_RET_ALLOW : kRefuse)};
}

std::vector<CallRun> BuildRuns(Scope scope) {
  std::vector<CallRun> runs;
  for (uint32_t number = 0; number <= kLastKnownSyscall; ++number) {
    BpfProgram verdict = VerdictOf(number, scope);
    const bool same = !runs.empty() && verdict.size() == 1 && runs.back().verdict.size() == 1 &&
                      runs.back().verdict[0].k == verdict[0].k;
    if (!same) runs.push_back({number, std::move(verdict)});
  }
  // Calls newer than this list get "not there", after which libraries fall back. At "not permitted"
  // they would fail.
  runs.push_back({kLastKnownSyscall + 1, {Return(kUnknown)}});
  return runs;
}

// Emits the search for runs [begin, end).
BpfProgram Search(const std::vector<CallRun>& runs, size_t begin, size_t end) {
  if (end - begin == 1) return runs[begin].verdict;
  const size_t middle = begin + (end - begin) / 2;
  const BpfProgram low = Search(runs, begin, middle);
  const BpfProgram high = Search(runs, middle, end);
  BpfProgram program;
  // The jump's own offset is one byte; BPF_JA jumps over a longer low half.
  if (low.size() <= 255) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, runs[middle].first,
                               static_cast<uint8_t>(low.size()), 0));
  } else {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, runs[middle].first, 0, 1));
    program.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(low.size())));
  }
  Append(&program, low);
  Append(&program, high);
  return program;
}

BpfProgram BuildFilter(Scope scope) {
  BpfProgram program = {
      Load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      Return(kKill),
      Load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kX32Bit, 0, 3),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kTakenBack, 0, 1),
      Return(SECCOMP_RET_ALLOW),
      Return(kKill),
  };
  const std::vector<CallRun> runs = BuildRuns(scope);
  Append(&program, Search(runs, 0, runs.size()));
  return program;
}

}  // namespace

BpfProgram BuildSandboxFilter() {
  return BuildFilter(Scope::kSandbox);
}

BpfProgram BuildSessionFilter() {
  return BuildFilter(Scope::kSession);
}

BpfProgram WithPass(BpfProgram program, uint64_t pass) {
  for (sock_filter& instruction : program) {
    if (instruction.k == kPassLow)
      instruction.k = static_cast<uint32_t>(pass);
    else if (instruction.k == kPassHigh)
      instruction.k = static_cast<uint32_t>(pass >> 32);
  }
  return program;
}

Status LoadFilter(const BpfProgram& program) {
  const sock_fprog filter{static_cast<unsigned short>(program.size()),
                          const_cast<sock_filter*>(program.data())};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) {
    return FailSys("seccomp SET_MODE_FILTER");
  }
  return {};
}

}  // namespace atl::spawner
