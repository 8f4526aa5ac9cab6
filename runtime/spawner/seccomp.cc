#include "runtime/spawner/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/spawner/syscall_list.h"

namespace atl::spawner {
namespace {

constexpr uint32_t kX32Bit = 0x40000000;
constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr uint32_t ArgLow(unsigned n) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + n * sizeof(uint64_t));
}

sock_filter Load(uint32_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}
sock_filter Return(uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

// A run of call numbers [first, next run's first) with one verdict, or one call whose arguments are
// checked.
struct Run {
  uint32_t first;
  BpfProgram verdict;
};

void Append(BpfProgram* program, const BpfProgram& part) {
  program->insert(program->end(), part.begin(), part.end());
}

// Allows one of `values` in the low word of argument `n`; the high word is not looked at because
// the kernel itself takes these arguments as 32-bit integers.
BpfProgram OneOf(unsigned n, const std::vector<uint32_t>& values) {
  BpfProgram program{Load(ArgLow(n))};
  for (uint32_t value : values) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    program.push_back(Return(kAllow));
  }
  program.push_back(Return(kRefuse));
  return program;
}

sock_filter JumpIfEqual(uint32_t value, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}

// socket(family, type, protocol): an allow-list of families, and for the internet ones of
// protocols, so that no socket call loads a rarely used module (SCTP, UDP-Lite, MPTCP, L2TP).
// AF_NETLINK only for NETLINK_ROUTE, which getifaddrs needs; not XFRM, NETFILTER or AUDIT.
BpfProgram CheckSocket() {
  return {
      /*  0 */ Load(ArgLow(0)),
      /*  1 */ JumpIfEqual(AF_UNIX, 12, 0),
      /*  2 */ JumpIfEqual(AF_INET, 4, 0),
      /*  3 */ JumpIfEqual(AF_INET6, 3, 0),
      /*  4 */ JumpIfEqual(AF_NETLINK, 0, 8),
      /*  5 */ Load(ArgLow(2)),
      /*  6 */ JumpIfEqual(0 /* NETLINK_ROUTE */, 7, 6),
      /*  7 */ Load(ArgLow(2)),
      /*  8 */ JumpIfEqual(0, 5, 0),
      /*  9 */ JumpIfEqual(IPPROTO_TCP, 4, 0),
      /* 10 */ JumpIfEqual(IPPROTO_UDP, 3, 0),
      /* 11 */ JumpIfEqual(IPPROTO_ICMP, 2, 0),
      /* 12 */ JumpIfEqual(IPPROTO_ICMPV6, 1, 2),
      /* 13 */ Return(SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      /* 14 */ Return(kAllow),
      /* 15 */ Return(SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
  };
}

BpfProgram CheckClone() {
  return {
      Load(ArgLow(0)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNamespaceFlags, 0, 1),
      Return(kRefuse),
      Return(kAllow),
  };
}

// TIOCSTI types into a terminal, TIOCLINUX pastes: ways out of a shared one (CVE-2017-5226).
//
// A file's flags and project are set with one call. Outside the initial user namespace the kernel
// refuses to change the project and its inheritance, but on an overlay (measured on 6.1 and 6.18)
// it compares with the file of the lower layer, which has none, copies that up, and then sets what
// was asked for with the mounter's rights: a chattr on any directory of the image, and all that is
// written there is outside of the disk limit. The answer is that of a file system without flags;
// file_setattr(2), Linux 6.17, is newer than the list.
BpfProgram CheckIoctl() {
  return {
      Load(ArgLow(1)),
      JumpIfEqual(TIOCSTI, 4, 0),
      JumpIfEqual(TIOCLINUX, 3, 0),
      JumpIfEqual(static_cast<uint32_t>(FS_IOC_SETFLAGS), 3, 0),
      JumpIfEqual(static_cast<uint32_t>(FS_IOC_FSSETXATTR), 2, 0),
      Return(kAllow),
      Return(kRefuse),
      Return(SECCOMP_RET_ERRNO | ENOTTY),
  };
}

BpfProgram VerdictOf(uint32_t number) {
  switch (number) {
    case SYS_clone:
      return CheckClone();
    case SYS_socket:
    case SYS_socketpair:
      return CheckSocket();
    case SYS_ioctl:
      return CheckIoctl();
    // Plain Linux, 32-bit uname, no randomisation off-switches that weaken other programs, and the
    // query.
    case SYS_personality:
      return OneOf(0, {0x0, 0x8, 0x20000, 0x20008, 0xffffffff});
    default:
      return {Return(IsAllowedSyscall(number) ? kAllow : kRefuse)};
  }
}

std::vector<Run> BuildRuns() {
  std::vector<Run> runs;
  for (uint32_t number = 0; number <= kLastKnownSyscall; ++number) {
    BpfProgram verdict = VerdictOf(number);
    const bool same = !runs.empty() && verdict.size() == 1 && runs.back().verdict.size() == 1 &&
                      runs.back().verdict[0].k == verdict[0].k;
    if (!same) runs.push_back({number, std::move(verdict)});
  }
  // Calls newer than this list: "not there" makes libraries fall back, "not permitted" makes them
  // fail.
  runs.push_back({kLastKnownSyscall + 1, {Return(kUnknown)}});
  return runs;
}

// Emits the search for runs [begin, end).
BpfProgram Search(const std::vector<Run>& runs, size_t begin, size_t end) {
  if (end - begin == 1) return runs[begin].verdict;
  const size_t middle = begin + (end - begin) / 2;
  const BpfProgram low = Search(runs, begin, middle);
  const BpfProgram high = Search(runs, middle, end);
  BpfProgram program;
  // The jump's own offset is one byte; a long low half is jumped over with BPF_JA.
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

}  // namespace

BpfProgram BuildSandboxFilter() {
  BpfProgram program = {
      Load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      Return(kKill),
      Load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kX32Bit, 0, 1),
      Return(kKill),
  };
  const std::vector<Run> runs = BuildRuns();
  Append(&program, Search(runs, 0, runs.size()));
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
