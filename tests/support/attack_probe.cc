// Plays attacks from inside a sandbox. Each argument names one attack. Each line of output is
// "NAME: RESULT". RESULT is the errno's name, "killed NAME" for a signal, or "ALLOWED". The program
// is static, so that it runs in any image.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace {

constexpr long kX32 = 0x40000000;

long I386(long number, long a, long b, long c) {
  long result;
  // Calls the 32-bit entry from a 64-bit process, as an AF_ALG exploit does if the 64-bit call is
  // filtered.
  asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  if (result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

long OpenFor(const char* path, int flags) {
  return ::open(path, flags | O_CLOEXEC);
}

// Opening a kernel file for writing is the attack. A kernel file that opens and then refuses the
// write counts as refused.
long WriteTo(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  return ::write(fd, text, strlen(text));
}

bool Hybrid() {
  return ::access("/sys/fs/cgroup/unified", F_OK) == 0;
}

// Returns the path of `name` in the root of the v2 hierarchy, the sandbox's own group.
const char* OwnGroup(const char* name) {
  static std::string path;
  path = std::string(Hybrid() ? "/sys/fs/cgroup/unified/" : "/sys/fs/cgroup/") + name;
  return path.c_str();
}

// Returns the path of a file of a v1 hierarchy. On v2, returns the file of the same limit.
const char* V1(const char* name) {
  static std::string path;
  path = std::string("/sys/fs/cgroup/") + (Hybrid() ? name : "memory.max");
  return path.c_str();
}

long Clone3(unsigned long flags) {
  clone_args args{};
  args.flags = flags;
  args.exit_signal = SIGCHLD;
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) ::_exit(0);
  return pid;
}

long Clone(unsigned long flags) {
  const long pid = ::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) ::_exit(0);
  return pid;
}

// Combines each flag with one that the kernel rejects with EINVAL before it checks rights. EPERM
// proves that the filter refused the call.
long CloneEachNamespace() {
  for (const unsigned long flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                   CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET}) {
    if (Clone(flag | CLONE_THREAD) >= 0) return 0;
    if (errno != EPERM) return -1;
  }
  return -1;
}

long Setns(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  return ::setns(fd, 0);
}

long SetFlags(const char* path, long flags) {
  const int fd = ::open(path, O_RDONLY);
  return fd < 0 ? fd : ::ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

// Changes only the project and the flags of the file's attributes.
long SetProject(const char* path, uint32_t project, uint32_t flags) {
  const int fd = ::open(path, O_RDONLY);
  if (fd < 0) return fd;
  fsxattr attributes{};
  if (::ioctl(fd, FS_IOC_FSGETXATTR, &attributes) != 0) return -1;
  attributes.fsx_projid = project;
  attributes.fsx_xflags = flags;
  return ::ioctl(fd, FS_IOC_FSSETXATTR, &attributes);
}

long Handle() {
  // Builds a file handle by hand (open_by_handle_at(2)): ext4, inode 2, the root of the host's file
  // system.
  alignas(file_handle) char bytes[sizeof(file_handle) + 8] = {};
  auto* handle = reinterpret_cast<file_handle*>(bytes);
  handle->handle_bytes = 8;
  handle->handle_type = 1;
  bytes[sizeof(file_handle)] = 2;
  return ::open_by_handle_at(AT_FDCWD, handle, O_RDONLY);
}

long ConnectAbstract(std::string_view name) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return fd;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), size);
}

sock_filter g_return[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
const sock_fprog kOneInstruction{1, g_return};
constexpr int kNoProgram = -1;
constexpr int kOne = 1;
constexpr rlimit kNone{0, 0};

template <typename Value>
long SocketOption(int level, int option, const Value* value) {
  const int fd = ::socket(AF_INET6, SOCK_DGRAM, 0);
  return fd < 0 ? fd : ::setsockopt(fd, level, option, value, sizeof *value);
}

// Ignores the call's own result and checks the limit afterwards.
template <typename... Arguments>
long SetCoreLimit(long call, Arguments... arguments) {
  if (::syscall(call, arguments...) != 0) return -1;
  rlimit now{};
  if (::getrlimit(RLIMIT_CORE, &now) != 0) return -1;
  errno = EPERM;
  return now.rlim_cur == 1 ? -1 : 0;
}

// Allowed if an entry of one of the directories has another inode number in readdir(3) than in
// stat(2). Mounts are skipped, and so is "..", for which overlayfs reports the number of the layer.
long InodesDiffer(std::initializer_list<const char*> directories) {
  for (const char* name : directories) {
    const int directory = ::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat parent {
    }, info{};
    if (::fstat(directory, &parent) != 0) return 0;
    alignas(dirent64) char entries[32 << 10];
    while (const ssize_t size = ::getdents64(directory, entries, sizeof entries)) {
      if (size < 0) return 0;
      for (ssize_t at = 0; at < size;) {
        const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
        at += entry->d_reclen;
        if (std::string_view(entry->d_name) == "..") continue;
        if (::fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return 0;
        if (info.st_dev == parent.st_dev && info.st_ino != entry->d_ino) return 0;
      }
    }
    ::close(directory);
  }
  errno = ENOENT;
  return -1;
}

// Leaves a chroot through a descriptor from before it and goes up from there. Allowed if that ends
// anywhere but in the sandbox's own root.
long EscapeChroot() {
  struct stat root {
  }, top{};
  ::mkdir("/tmp/jail", 0700);
  const int before = ::open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (before < 0 || ::stat("/", &root) != 0 || ::chroot("/tmp/jail") != 0) return 0;
  if (::fchdir(before) != 0) return 0;
  for (int i = 0; i < 64; ++i) {
    if (::chdir("..") != 0) return 0;
  }
  if (::chroot(".") != 0 || ::stat("/", &top) != 0) return 0;
  errno = EPERM;
  return top.st_dev == root.st_dev && top.st_ino == root.st_ino ? -1 : 0;
}

// A tracer replaces a child's getppid with another call number. If the kernel skips that call, the
// tracer sets its result. Returns the result that the child sees.
long TracedCall(unsigned long long number, unsigned long long argument) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    ::_exit(::syscall(SYS_getppid) < 0 ? errno : 0);
  }
  int status = 0;
  user_regs_struct registers{};
  const auto go_on = [&](auto how) {
    return ::ptrace(how, child, nullptr, nullptr) == 0 && ::waitpid(child, &status, 0) == child;
  };
  if (::waitpid(child, &status, 0) != child) return 0;
  do {
    if (!go_on(PTRACE_SYSCALL) || !WIFSTOPPED(status)) return 0;
    ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
  } while (registers.orig_rax != SYS_getppid);
  registers.orig_rax = number;
  registers.rdi = argument;
  ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
  if (go_on(PTRACE_SYSCALL) && WIFSTOPPED(status) && number == ~0ULL) {
    ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    registers.rax = static_cast<unsigned long long>(-EMFILE);
    ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
  }
  while (WIFSTOPPED(status) && go_on(PTRACE_CONT)) {
  }
  if (WIFSIGNALED(status)) ::raise(WTERMSIG(status));
  errno = WEXITSTATUS(status);
  return errno == 0 ? 0 : -1;
}

struct Attack {
  const char* name;
  long (*run)();
};

constexpr Attack kAttacks[] = {
    // E1, E2, E4: socket families
    {"alg", [] { return long{::socket(38, SOCK_SEQPACKET, 0)}; }},
    {"alg-x32", [] { return ::syscall(SYS_socket | kX32, 38, SOCK_SEQPACKET, 0); }},
    {"alg-i386", [] { return I386(359, 38, SOCK_SEQPACKET, 0); }},
    {"socketcall-i386", [] { return I386(102, 1, 0, 0); }},
    {"key", [] { return long{::socket(15, SOCK_RAW, 2)}; }},
    {"rxrpc", [] { return long{::socket(33, SOCK_DGRAM, 2)}; }},
    {"xfrm", [] { return long{::socket(AF_NETLINK, SOCK_RAW, 6)}; }},
    {"netfilter", [] { return long{::socket(AF_NETLINK, SOCK_RAW, 12)}; }},
    {"packet", [] { return long{::socket(AF_PACKET, SOCK_RAW, 0)}; }},
    {"vsock", [] { return long{::socket(40, SOCK_STREAM, 0)}; }},
    // A6: the test listens on this name in the host's network namespace
    {"abstract-host", [] { return ConnectAbstract("atoll-test-victim"); }},
    {"raw", [] { return long{::socket(AF_INET, SOCK_RAW, 1)}; }},
    {"raw6", [] { return long{::socket(AF_INET6, SOCK_RAW, 58)}; }},
    // Types and protocols for which the module has an alias (Linux 6.1).
    {"dccp", [] { return long{::socket(AF_INET, 6, 0)}; }},
    {"dccp6", [] { return long{::socket(AF_INET6, 6 | SOCK_CLOEXEC, 33)}; }},
    {"no-type", [] { return long{::socket(AF_INET, 0, 0)}; }},
    {"seqpacket", [] { return long{::socket(AF_INET6, SOCK_SEQPACKET, 0)}; }},
    {"sctp", [] { return long{::socket(AF_INET, SOCK_STREAM, 132)}; }},
    {"mptcp", [] { return long{::socket(AF_INET, SOCK_STREAM, 262)}; }},
    {"stream-udp", [] { return long{::socket(AF_INET, SOCK_STREAM, 17)}; }},
    {"datagram-tcp", [] { return long{::socket(AF_INET6, SOCK_DGRAM, 6)}; }},
    {"icmp6-of-4", [] { return long{::socket(AF_INET, SOCK_DGRAM, 58)}; }},
    {"icmp-of-6", [] { return long{::socket(AF_INET6, SOCK_DGRAM, 1)}; }},
    {"raw-0", [] { return long{::socket(AF_INET, SOCK_RAW, 0)}; }},
    {"sock-diag", [] { return long{::socket(AF_NETLINK, SOCK_RAW, 4)}; }},
    {"route", [] { return long{::socket(AF_NETLINK, SOCK_RAW, 0)}; }},   // must be allowed
    {"ping", [] { return long{::socket(AF_INET, SOCK_DGRAM, 1)}; }},     // likewise
    {"ping6", [] { return long{::socket(AF_INET6, SOCK_DGRAM, 58)}; }},  // likewise
    {"tcp", [] { return long{::socket(AF_INET, SOCK_STREAM, 0)}; }},     // likewise
    {"tcp6", [] { return long{::socket(AF_INET6, SOCK_STREAM, 6)}; }},   // likewise
    {"udp4", [] { return long{::socket(AF_INET, SOCK_DGRAM, 17)}; }},    // likewise
    {"udp", [] { return long{::socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0)}; }},  // likewise
    // E3, E4: namespaces and the gateways behind them
    {"unshare-user", [] { return long{::unshare(CLONE_NEWUSER)}; }},
    {"unshare-net", [] { return long{::unshare(CLONE_NEWNET)}; }},
    {"unshare-mount", [] { return long{::unshare(CLONE_NEWNS)}; }},
    {"clone-user", [] { return Clone(CLONE_NEWUSER); }},
    {"clone-net", [] { return Clone(CLONE_NEWNET); }},
    {"clone-each-odd", [] { return CloneEachNamespace(); }},
    {"clone3-user", [] { return Clone3(CLONE_NEWUSER); }},
    {"clone3-user-net", [] { return Clone3(CLONE_NEWUSER | CLONE_NEWNET); }},
    {"setns", [] { return Setns("/proc/self/ns/net"); }},
    // The same calls with arguments for which the kernel would answer EBADF, EFAULT or EINVAL.
    {"setns-odd", [] { return long{::setns(-1, 0)}; }},
    {"mount-odd", [] { return ::syscall(SYS_mount, "none", "/tmp", 1, 0, nullptr); }},
    {"umount-odd", [] { return long{::umount2("/proc/sys", 1 << 20)}; }},
    {"open-tree-odd", [] { return long{::open_tree(AT_FDCWD, "/", ~0U)}; }},
    {"fsopen", [] { return long{::fsopen("ext4", 0)}; }},
    {"mount", [] { return long{::mount("none", "/tmp", "tmpfs", 0, nullptr)}; }},
    {"remount",
     [] { return long{::mount(nullptr, "/proc/sys", nullptr, MS_REMOUNT | MS_BIND, nullptr)}; }},
    {"umount", [] { return long{::umount2("/proc/sys", MNT_DETACH)}; }},
    {"open-tree", [] { return long{::open_tree(AT_FDCWD, "/", 1)}; }},
    {"pivot", [] { return ::syscall(SYS_pivot_root, ".", "."); }},
    {"chroot", [] { return long{::chroot("/tmp")}; }},  // must be allowed
    {"chroot-unprivileged",
     [] { return ::setresuid(1000, 1000, 1000) != 0 ? 0L : long{::chroot("/tmp")}; }},
    {"chroot-escape", [] { return EscapeChroot(); }},
    {"fanotify",
     [] {
       // Linux 5.13 allows this to everybody: notifications about files, without permission events.
       return ::syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
     }},
    {"io-uring", [] { return ::syscall(SYS_io_uring_setup, 8, nullptr); }},
    {"bpf", [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }},
    // UFFD_USER_MODE_ONLY, which Linux 5.11 gives to everybody
    {"userfaultfd", [] { return ::syscall(SYS_userfaultfd, 1); }},
    {"perf", [] { return ::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
    {"keyctl", [] { return ::syscall(SYS_keyctl, 0, -3, 0, 0, 0); }},
    {"add-key", [] { return ::syscall(SYS_add_key, "user", "x", "y", 1, -3); }},
    {"kexec", [] { return ::syscall(SYS_kexec_load, 0, 0, nullptr, 0); }},
    {"init-module", [] { return ::syscall(SYS_init_module, nullptr, 0, ""); }},
    {"syslog", [] { return ::syscall(SYS_syslog, 3, nullptr, 0); }},
    {"personality", [] { return ::syscall(SYS_personality, 0x0400000); }},  // READ_IMPLIES_EXEC
    {"unknown-call", [] { return ::syscall(600, 0); }},
    {"no-call", [] { return ::syscall(-1); }},
    // The tracer changes the call after it began. A filter that ran before the tracer would miss
    // it.
    {"traced-unshare", [] { return TracedCall(SYS_unshare, CLONE_NEWUSER); }},
    {"traced-x32", [] { return TracedCall(SYS_getpid | kX32, 0); }},
    {"traced-taken-back", [] { return TracedCall(~0ULL, 0); }},  // must be allowed
    // B7, B8
    {"handle", [] { return Handle(); }},
    {"name-to-handle",
     [] { return ::syscall(SYS_name_to_handle_at, AT_FDCWD, "/", nullptr, nullptr, 0); }},
    {"mknod-block", [] { return long{::mknod("/tmp/disk", S_IFBLK | 0600, makedev(254, 0))}; }},
    {"mknod-char", [] { return long{::mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1))}; }},
    {"open-kmsg", [] { return OpenFor("/dev/kmsg", O_RDONLY); }},
    {"open-mem", [] { return OpenFor("/dev/mem", O_RDONLY); }},
    // No attack: ENOENT if readdir(3) and stat(2) agree on all entries.
    {"inodes-differ",
     [] {
       return InodesDiffer({"/", "/etc", "/bin", "/tmp"});
     }},
    {"mknod-in-dev", [] { return long{::mknod("/dev/kmem", S_IFCHR | 0600, makedev(1, 2))}; }},
    // B6
    {"core-pattern", [] { return WriteTo("/proc/sys/kernel/core_pattern", "|/tmp/x"); }},
    {"modprobe", [] { return WriteTo("/proc/sys/kernel/modprobe", "/tmp/x"); }},
    {"sysrq", [] { return WriteTo("/proc/sysrq-trigger", "h"); }},
    {"sysrq-switch", [] { return WriteTo("/proc/sys/kernel/sysrq", "1"); }},
    {"binfmt", [] { return WriteTo("/proc/sys/fs/binfmt_misc/register", ":x:M::x::/tmp/x:"); }},
    {"uevent-helper", [] { return WriteTo("/sys/kernel/uevent_helper", "/tmp/x"); }},
    {"release-agent", [] { return WriteTo("/sys/fs/cgroup/release_agent", "/tmp/x"); }},
    {"cgroup-procs", [] { return WriteTo(OwnGroup("cgroup.procs"), "0"); }},
    {"cgroup-mkdir", [] { return long{::mkdir(OwnGroup("x"), 0755)}; }},
    {"cgroup-v1-limit", [] { return WriteTo(V1("memory/memory.limit_in_bytes"), "-1"); }},
    {"cgroup-v1-quota", [] { return WriteTo(V1("cpu/cpu.cfs_quota_us"), "-1"); }},
    {"cgroup-v1-procs", [] { return WriteTo(V1("cpuset/cgroup.procs"), "0"); }},
    {"cgroup-v1-remount",
     [] { return long{::mount("", "/sys/fs/cgroup/memory", "", MS_REMOUNT | MS_BIND, "")}; }},
    {"user-limits", [] { return WriteTo("/proc/sys/user/max_user_namespaces", "100"); }},
    {"oom-down", [] { return WriteTo("/proc/self/oom_score_adj", "-1000"); }},
    {"hostname", [] { return long{::sethostname("x", 1)}; }},
    // Gains root through the set-user-ID bit of the program's own file.
    {"effective-root",
     [] {
       errno = EPERM;
       return ::geteuid() == 0 ? 0L : -1L;
     }},
    // B12: leaving the project that a disk limit is set on. /suid is of the image, /own is not.
    {"chattr-image-dir", [] { return SetFlags("/suid", FS_NODUMP_FL); }},
    {"chattr-own-dir",
     [] {
       ::mkdir("/own", 0755);
       return SetFlags("/own", 0);
     }},
    {"project-image-dir", [] { return SetProject("/bin", 0, FS_XFLAG_NODUMP); }},
    {"project-image-file", [] { return SetProject("/suid/busybox", 0, FS_XFLAG_NODUMP); }},
    {"project-own-dir", [] { return SetProject("/own", 4711, FS_XFLAG_PROJINHERIT); }},
    {"file-setattr",
     [] {
       // struct file_attr of Linux 6.17.
       uint64_t attributes[3] = {};
       return ::syscall(469, AT_FDCWD, "/suid", attributes, sizeof attributes, 0);
     }},
    // K: budgets that all sandboxes share
    {"attach-filter", [] { return SocketOption(SOL_SOCKET, SO_ATTACH_FILTER, &kOneInstruction); }},
    {"attach-reuseport-filter",
     [] { return SocketOption(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &kOneInstruction); }},
    {"attach-bpf", [] { return SocketOption(SOL_SOCKET, SO_ATTACH_BPF, &kNoProgram); }},
    {"attach-reuseport-bpf",
     [] { return SocketOption(SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &kNoProgram); }},
    {"reuse-port",
     [] { return SocketOption(SOL_SOCKET, SO_REUSEPORT, &kOne); }},  // must be allowed
    // IPV6_FLOWLABEL_MGR; IPV6_V6ONLY must be allowed
    {"flow-label", [] { return SocketOption(IPPROTO_IPV6, 32, &kOneInstruction); }},
    {"v6-only", [] { return SocketOption(IPPROTO_IPV6, IPV6_V6ONLY, &kOne); }},
    {"seccomp",
     [] { return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &kOneInstruction); }},
    {"seccomp-prctl",
     [] { return long{::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &kOneInstruction)}; }},
    {"aio",
     [] {
       unsigned long context = 0;
       return ::syscall(SYS_io_setup, 1, &context);
     }},
    // A huge page size that does not exist, because an empty pool gives the same error as the
    // filter.
    {"huge-mmap",
     [] {
       constexpr int kHuge = MAP_HUGETLB | static_cast<int>(63U << MAP_HUGE_SHIFT);
       return ::mmap(nullptr, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | kHuge, -1, 0) ==
                      MAP_FAILED
                  ? -1L
                  : 0L;
     }},
    {"huge-memfd", [] { return long{::memfd_create("x", MFD_HUGETLB)}; }},
    {"memfd-all-flags", [] { return long{::memfd_create("x", ~0U)}; }},
    {"memfd", [] { return long{::memfd_create("x", MFD_ALLOW_SEALING)}; }},  // must be allowed
    {"huge-shm", [] { return long{::shmget(IPC_PRIVATE, 2 << 20, SHM_HUGETLB | 0600)}; }},
    // A signal to everybody ends the entrypoint; 0 only asks whether it may be sent.
    {"signal-everybody", [] { return long{::kill(-1, 0)}; }},
    {"signal-everybody-wide", [] { return ::syscall(SYS_kill, 0xffffffffL, 0); }},
    {"signal-itself", [] { return long{::kill(::getpid(), 0)}; }},  // must be allowed
    {"signal-own-group", [] { return long{::kill(0, 0)}; }},        // must be allowed
    // The kernel runs a piped core_pattern for every limit but 1.
    {"core-to-none", [] { return SetCoreLimit(SYS_setrlimit, RLIMIT_CORE, &kNone, 0); }},
    {"core-to-none-prlimit", [] { return SetCoreLimit(SYS_prlimit64, 0, RLIMIT_CORE, &kNone); }},
    {"core-to-none-and-read",
     [] {
       rlimit before{};
       return ::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &kNone, &before);
     }},
    // A7
    {"tiocsti",
     [] {
       char c = 'x';
       return long{::ioctl(0, TIOCSTI, &c)};
     }},
    // A3: process 1
    {"ptrace-1", [] { return ::ptrace(PTRACE_SEIZE, 1, nullptr, nullptr); }},
    {"mem-1", [] { return OpenFor("/proc/1/mem", O_RDONLY); }},
    {"environ-1", [] { return OpenFor("/proc/1/environ", O_RDONLY); }},
    {"fd-1", [] { return OpenFor("/proc/1/task/1/fd", O_RDONLY | O_DIRECTORY); }},
    {"maps-1", [] { return OpenFor("/proc/1/maps", O_RDONLY); }},
    {"cwd-1", [] { return OpenFor("/proc/1/cwd", O_PATH); }},
    {"root-1", [] { return OpenFor("/proc/1/root", O_PATH | O_DIRECTORY); }},
    {"exe-1-read", [] { return OpenFor("/proc/1/exe", O_RDONLY); }},
    {"exe-1-write", [] { return OpenFor("/proc/1/exe", O_WRONLY); }},
    {"prlimit-1",
     [] {
       const rlimit none{1, 1};
       return long{::prlimit(1, RLIMIT_NOFILE, &none, nullptr)};
     }},
    {"vm-read-1",
     [] {
       char byte;
       iovec here{&byte, 1};
       iovec there{reinterpret_cast<void*>(0x10000), 1};
       return static_cast<long>(::process_vm_readv(1, &here, 1, &there, 1, 0));
     }},
    {"pidfd-getfd-1",
     [] {
       const long pidfd = ::syscall(SYS_pidfd_open, 1, 0);
       return pidfd < 0 ? pidfd : ::syscall(SYS_pidfd_getfd, pidfd, 3, 0);
     }},
};

std::string ResultOf(long (*run)()) {
  int fds[2];
  if (::pipe(fds) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    errno = 0;
    const long result = run();
    const int number = result < 0 ? errno : 0;
    ::_exit(::write(fds[1], &number, sizeof number) == sizeof number ? 0 : 1);
  }
  ::close(fds[1]);
  int number = -1;
  const ssize_t n = ::read(fds[0], &number, sizeof number);
  ::close(fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return std::string("killed SIG") + sigabbrev_np(WTERMSIG(status));
  if (n != sizeof number) return "no result";
  return number == 0 ? "ALLOWED" : strerrorname_np(number);
}

// "as UID PROGRAM ARG…": becomes that user and executes the program.
int RunAs(char** argv) {
  uid_t id = 0;
  const std::string_view digits = argv[2];
  if (std::from_chars(digits.data(), digits.data() + digits.size(), id).ec != std::errc()) return 1;
  if (::setresgid(id, id, id) != 0 || ::setresuid(id, id, id) != 0) return 1;
  ::execv(argv[3], argv + 3);
  return 1;
}

// Fills unread sockets on the loopback, with the largest buffers that the kernel allows. Prints
// "queued" when they are full, and keeps them open.
int QueueAll(bool tcp) {
  constexpr int kPairs = 30;
  constexpr int kLargest = 1 << 30;
  static const std::array<char, 60000> data{};
  for (int pair = 0; pair < kPairs; ++pair) {
    const int receiver = ::socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    const int sender = ::socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
    ::setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &kLargest, sizeof kLargest);
    ::setsockopt(sender, SOL_SOCKET, SO_SNDBUF, &kLargest, sizeof kLargest);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(receiver, reinterpret_cast<sockaddr*>(&address), size) != 0) break;
    ::getsockname(receiver, reinterpret_cast<sockaddr*>(&address), &size);
    if (tcp && ::listen(receiver, 1) != 0) break;
    if (::connect(sender, reinterpret_cast<sockaddr*>(&address), size) != 0) break;
    // The kernel silently drops datagrams that do not fit.
    for (int i = 0; i < 400; ++i) {
      if (::send(sender, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
    }
  }
  std::puts("queued");
  std::fflush(stdout);
  return ::pause();
}

// Forks `number` processes. Each increments counters in two mapped files for ever, first in aN,
// then in bN.
int CountInPairs(std::string_view number) {
  int pairs = 0;
  if (std::from_chars(number.data(), number.data() + number.size(), pairs).ec != std::errc())
    return 1;
  for (int pair = 1; pair <= pairs; ++pair) {
    if (pair < pairs && ::fork() != 0) continue;
    std::array<volatile uint32_t*, 2> counters{};
    for (size_t i = 0; i < counters.size(); ++i) {
      const std::string name = (i == 0 ? "a" : "b") + std::to_string(pair);
      const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (::ftruncate(file, 4096) != 0) return 1;
      void* const mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (mapped == MAP_FAILED) return 1;
      counters[i] = static_cast<volatile uint32_t*>(mapped);
    }
    for (;;) {
      *counters[0] = *counters[0] + 1;
      *counters[1] = *counters[1] + 1;
    }
  }
  return 1;
}

// Prints what a virtual machine gets from each port of its host.
int DialHost(char** ports) {
  for (; *ports != nullptr; ++ports) {
    const int fd = ::socket(AF_VSOCK, SOCK_STREAM, 0);
    sockaddr_vm host{};
    host.svm_family = AF_VSOCK;
    host.svm_cid = VMADDR_CID_HOST;
    const std::string_view port = *ports;
    std::from_chars(port.data(), port.data() + port.size(), host.svm_port);
    const bool connected =
        ::connect(fd, reinterpret_cast<const sockaddr*>(&host), sizeof host) == 0;
    std::printf("%s: %s\n", *ports, connected ? "connected" : std::strerror(errno));
    ::close(fd);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "count-in-pairs") return CountInPairs(argv[2]);
  if (argc == 3 && std::string_view(argv[1]) == "queue") {
    return QueueAll(std::string_view(argv[2]) == "tcp");
  }
  if (argc > 3 && std::string_view(argv[1]) == "as") return RunAs(argv);
  if (argc > 2 && std::string_view(argv[1]) == "vsock") return DialHost(argv + 2);
  for (int i = 1; i < argc; ++i) {
    bool known = false;
    for (const Attack& attack : kAttacks) {
      if (std::string_view(argv[i]) != attack.name) continue;
      known = true;
      std::printf("%s: %s\n", attack.name, ResultOf(attack.run).c_str());
    }
    if (!known) std::printf("%s: no such attack\n", argv[i]);
  }
}
