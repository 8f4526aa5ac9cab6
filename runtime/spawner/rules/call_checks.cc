#include "runtime/spawner/rules/call_checks.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace atl::spawner {
namespace {

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr uint32_t Answer(int error) {
  return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error);
}
// errno 0: the call has no effect, and the caller is told that it succeeded.
constexpr uint32_t kPretend = Answer(0);

// The low and the high word of argument `n`. The high word is ignored where the kernel itself takes
// the argument as a 32-bit integer.
constexpr uint32_t ArgLow(unsigned n) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + n * sizeof(uint64_t));
}

constexpr uint32_t ArgHigh(unsigned n) {
  return ArgLow(n) + static_cast<uint32_t>(sizeof(uint32_t));
}

sock_filter JumpIfEqual(uint32_t value, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}
sock_filter JumpIfAny(uint32_t bits, uint8_t yes, uint8_t no) {
  return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no);
}

BpfProgram OneOf(unsigned n, const std::vector<uint32_t>& values) {
  BpfProgram program{Load(ArgLow(n))};
  for (uint32_t value : values) {
    program.push_back(JumpIfEqual(value, 0, 1));
    program.push_back(Return(kAllow));
  }
  program.push_back(Return(Answer(EPERM)));
  return program;
}

BpfProgram NoneOf(unsigned n, uint32_t bits, int error) {
  return {Load(ArgLow(n)), JumpIfAny(bits, 0, 1), Return(Answer(error)), Return(kAllow)};
}

// Allows the call to a caller that knows the pass (seccomp.h), and answers others with `error`.
BpfProgram PassOr(int error) {
  return {
      Load(ArgLow(kPassArgument)),
      JumpIfEqual(kPassLow, 0, 3),
      Load(ArgHigh(kPassArgument)),
      JumpIfEqual(kPassHigh, 0, 1),
      Return(kAllow),
      Return(Answer(error)),
  };
}

// kill(pid, signal): a signal to everybody would end the entrypoint, which is not process 1, and
// with it the sandbox. execd may send it.
BpfProgram CheckKill() {
  constexpr uint32_t kEverybody = 0xffffffff;
  BpfProgram program = {Load(ArgLow(0)), JumpIfEqual(kEverybody, 1, 0), Return(kAllow)};
  const BpfProgram pass = PassOr(EPERM);
  program.insert(program.end(), pass.begin(), pass.end());
  return program;
}

// socket(family, type, protocol): an allow-list of families, and for the internet ones of pairs of
// type and protocol. So no socket call makes the kernel load a module: it starts modprobe on the
// host for each pair that it does not have (SCTP, DCCP, UDP-Lite, MPTCP, L2TP, but also UDP of a
// stream, or ICMP of the other family). AF_NETLINK only for NETLINK_ROUTE, which getifaddrs needs;
// not XFRM, NETFILTER or AUDIT, and not SOCK_DIAG (README.md).
BpfProgram CheckSocket() {
  constexpr uint32_t kTypes = 0xf;  // the other bits are flags
  return {
      /*  0 */ Load(ArgLow(0)),
      /*  1 */ JumpIfEqual(AF_UNIX, 22, 0),
      /*  2 */ JumpIfEqual(AF_NETLINK, 19, 0),
      /*  3 */ JumpIfEqual(AF_INET, 1, 0),
      /*  4 */ JumpIfEqual(AF_INET6, 0, 20),
      /*  5 */ Load(ArgLow(1)),
      /*  6 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kTypes),
      /*  7 */ JumpIfEqual(SOCK_STREAM, 2, 0),
      /*  8 */ JumpIfEqual(SOCK_DGRAM, 4, 0),
      /*  9 */ JumpIfEqual(SOCK_RAW, 18, 17),
      /* 10 */ Load(ArgLow(2)),
      /* 11 */ JumpIfEqual(0, 12, 0),
      /* 12 */ JumpIfEqual(IPPROTO_TCP, 11, 13),
      /* 13 */ Load(ArgLow(2)),
      /* 14 */ JumpIfEqual(0, 9, 0),
      /* 15 */ JumpIfEqual(IPPROTO_UDP, 8, 0),
      /* 16 */ JumpIfEqual(IPPROTO_ICMP, 3, 0),
      /* 17 */ JumpIfEqual(IPPROTO_ICMPV6, 0, 8),
      /* 18 */ Load(ArgLow(0)),
      /* 19 */ JumpIfEqual(AF_INET6, 4, 6),
      /* 20 */ Load(ArgLow(0)),
      /* 21 */ JumpIfEqual(AF_INET, 2, 4),
      /* 22 */ Load(ArgLow(2)),
      /* 23 */ JumpIfEqual(NETLINK_ROUTE, 0, 1),
      /* 24 */ Return(kAllow),
      /* 25 */ Return(Answer(EAFNOSUPPORT)),
      /* 26 */ Return(Answer(EPROTONOSUPPORT)),
      /* 27 */ Return(Answer(ESOCKTNOSUPPORT)),
      /* 28 */ Return(Answer(EPERM)),
  };
}

// TIOCSTI types into a terminal and TIOCLINUX pastes: both lead out of a shared terminal
// (CVE-2017-5226).
//
// A file's flags and project are set with one call. Outside the initial user namespace the kernel
// refuses to change the project and its inheritance, but on an overlay (measured on 6.1 and 6.18)
// it compares with the file of the lower layer, which has none. It copies that file up and then
// sets what was asked for with the mounter's rights: after a chattr on any directory of the image,
// all that is written there is outside of the disk limit. The answer is that of a file system
// without flags. file_setattr(2), Linux 6.17, is newer than the list.
BpfProgram CheckIoctl() {
  return {
      Load(ArgLow(1)),
      JumpIfEqual(TIOCSTI, 4, 0),
      JumpIfEqual(TIOCLINUX, 3, 0),
      JumpIfEqual(static_cast<uint32_t>(FS_IOC_SETFLAGS), 3, 0),
      JumpIfEqual(static_cast<uint32_t>(FS_IOC_FSSETXATTR), 2, 0),
      Return(kAllow),
      Return(Answer(EPERM)),
      Return(Answer(ENOTTY)),
  };
}

// Programs of a filter, of the caller or of all sockets of a port, are compiled into one budget of
// the host's (net.core.bpf_jit_limit), as seccomp's programs are. When it is used up, no filter
// loads anywhere. IPv6 flow labels are 4,096 for the whole host. Kernels without them answer "no
// such option".
BpfProgram CheckSetsockopt() {
  constexpr uint32_t kFlowLabelManager = 32;  // IPV6_FLOWLABEL_MGR of linux/in6.h
  return {
      /*  0 */ Load(ArgLow(1)),
      /*  1 */ JumpIfEqual(SOL_SOCKET, 3, 0),
      /*  2 */ JumpIfEqual(IPPROTO_IPV6, 0, 7),
      /*  3 */ Load(ArgLow(2)),
      /*  4 */ JumpIfEqual(kFlowLabelManager, 6, 5),
      /*  5 */ Load(ArgLow(2)),
      /*  6 */ JumpIfEqual(SO_ATTACH_FILTER, 4, 0),
      /*  7 */ JumpIfEqual(SO_ATTACH_BPF, 3, 0),
      /*  8 */ JumpIfEqual(SO_ATTACH_REUSEPORT_CBPF, 2, 0),
      /*  9 */ JumpIfEqual(SO_ATTACH_REUSEPORT_EBPF, 1, 0),
      /* 10 */ Return(kAllow),
      /* 11 */ Return(Answer(ENOPROTOOPT)),
  };
}

// A process's own filters come out of the same budget, 32,768 instructions for each process: a few
// sandboxes full of them use it up. The answer is that of a kernel without CONFIG_SECCOMP_FILTER.
// Strict mode, which costs nothing, could not be had under a filter either.
BpfProgram CheckPrctl() {
  return {Load(ArgLow(0)), JumpIfEqual(PR_SET_SECCOMP, 0, 1), Return(Answer(EINVAL)),
          Return(kAllow)};
}

// Pretends that a change of RLIMIT_CORE succeeds, and keeps its value of 1. With a limit of exactly
// 1 the kernel starts no handler for a piped core_pattern (core(5)). The handler would run as the
// host's root and read the sandbox's core dump. A limit of 0 does not prevent it. Programs that ask
// for 0 (ssh-agent, gpg-agent) exit on an error, and get what they want, which is no core file.
BpfProgram CheckSetrlimit() {
  return {Load(ArgLow(0)), JumpIfEqual(RLIMIT_CORE, 0, 1), Return(kPretend), Return(kAllow)};
}

// prlimit64(pid, resource, new, old): reading passes. A caller that also asks for the old value
// would not get it from a pretended success.
BpfProgram CheckPrlimit() {
  return {
      /*  0 */ Load(ArgLow(1)),
      /*  1 */ JumpIfEqual(RLIMIT_CORE, 0, 9),
      /*  2 */ Load(ArgLow(2)),
      /*  3 */ JumpIfEqual(0, 0, 2),
      /*  4 */ Load(ArgHigh(2)),
      /*  5 */ JumpIfEqual(0, 5, 0),
      /*  6 */ Load(ArgLow(3)),
      /*  7 */ JumpIfEqual(0, 0, 4),
      /*  8 */ Load(ArgHigh(3)),
      /*  9 */ JumpIfEqual(0, 0, 2),
      /* 10 */ Return(kPretend),
      /* 11 */ Return(kAllow),
      /* 12 */ Return(Answer(EPERM)),
  };
}

// Like mmap for huge pages. But a caller with unknown flags must get the kernel's answer: Chromium
// calls it with all flags to see whether the call exists, and ends at anything but EINVAL.
BpfProgram CheckMemfdCreate() {
  constexpr uint32_t kKnown = 0x1f | 0x3fU << 26;  // includes NOEXEC_SEAL, EXEC and the page size
  return {
      /*  0 */ Load(ArgLow(1)),
      /*  1 */ JumpIfAny(MFD_HUGETLB, 0, 3),
      /*  2 */ JumpIfAny(~kKnown, 0, 1),
      /*  3 */ Return(Answer(EINVAL)),
      /*  4 */ Return(Answer(ENOMEM)),
      /*  5 */ Return(kAllow),
  };
}

}  // namespace

std::optional<BpfProgram> CheckArguments(uint32_t number) {
  switch (number) {
    case SYS_clone:
      return NoneOf(0, kNamespaceFlags, EPERM);
    // The C library then falls back to clone.
    case SYS_clone3:
      return PassOr(ENOSYS);
    case SYS_setns:
      return PassOr(EPERM);
    case SYS_kill:
      return CheckKill();
    case SYS_socket:
    case SYS_socketpair:
      return CheckSocket();
    case SYS_setsockopt:
      return CheckSetsockopt();
    case SYS_ioctl:
      return CheckIoctl();
    case SYS_seccomp:
      return BpfProgram{Return(Answer(EINVAL))};
    case SYS_prctl:
      return CheckPrctl();
    case SYS_setrlimit:
      return CheckSetrlimit();
    case SYS_prlimit64:
      return CheckPrlimit();
    // Huge pages come out of the host's pool and are charged to nobody. Programs that ask for them
    // can deal with an empty pool.
    case SYS_mmap:
      return NoneOf(3, MAP_HUGETLB, ENOMEM);
    case SYS_memfd_create:
      return CheckMemfdCreate();
    case SYS_shmget:
      return NoneOf(2, SHM_HUGETLB, ENOMEM);
    // Allows plain Linux, 32-bit names, the version numbers of 2.6, and the query. Allows no switch
    // that turns randomisation off, because that would weaken other programs.
    case SYS_personality:
      return OneOf(0, {0x0, 0x8, 0x20000, 0x20008, 0xffffffff});
    default:
      return std::nullopt;
  }
}

}  // namespace atl::spawner
