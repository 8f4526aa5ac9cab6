// Confines itself as atoll-unpack does, then tries the attack that argv[1] names, like an
// attacker's code in the unpacker. Exit 0: the attack succeeded. Killed by SIGSYS: the filter
// stopped it. Other exits: the kernel refused; see each attempt.
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "images/unpack/confine.h"
#include "runtime/base/sys.h"
#include "runtime/wire/unpack.h"

namespace {

int Succeeded(long rc) {
  return rc >= 0 ? 0 : 1;
}

struct Attempt {
  std::string_view name;
  int (*run)();
};

constexpr Attempt kAttempts[] = {
    {"socket", [] { return Succeeded(socket(AF_UNIX, SOCK_STREAM, 0)); }},
    {"execve", [] { return Succeeded(execl("/sh", "sh", nullptr)); }},
    {"fork", [] { return Succeeded(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }},
    {"unshare", [] { return Succeeded(unshare(CLONE_NEWUSER)); }},
    {"mount", [] { return Succeeded(mount("x", "/", "tmpfs", 0, nullptr)); }},
    {"chroot", [] { return Succeeded(chroot("/")); }},
    {"ptrace", [] { return Succeeded(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
    {"bpf", [] { return Succeeded(syscall(SYS_bpf, 0, nullptr, 0)); }},
    {"io_uring", [] { return Succeeded(syscall(SYS_io_uring_setup, 1, nullptr)); }},
    {"x32", [] { return Succeeded(syscall(0x40000000 | SYS_getpid)); }},
    {"dup", [] { return Succeeded(fcntl(3, F_DUPFD, 0)); }},
    {"mmap-exec",
     [] {
       return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                      MAP_FAILED
                  ? 1
                  : 0;
     }},
    // The host's file system must be unreachable by every name.
    {"host",
     [] {
       for (const char* path : {"/etc/passwd", "../../../../../../etc/passwd", "/proc/self/root"}) {
         if (openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC) >= 0) return 0;
         if (openat(atl::wire::kUnpackOutputFd, path, O_RDONLY | O_CLOEXEC) >= 0) return 0;
       }
       return 1;
     }},
    // Only the three descriptors may be open. The launcher leaves more of them open on purpose.
    {"descriptors",
     [] {
       for (int fd = 0; fd < 1024; ++fd) {
         if (fd >= 3 && fd <= 5) continue;
         if (fcntl(fd, F_GETFL) >= 0) return 0;
       }
       return 1;
     }},
    // Files of ids that the user namespace does not map.
    {"chown", [] { return Succeeded(fchown(atl::wire::kUnpackOutputFd, 65536, 0)); }},
    {"device", [] { return Succeeded(mknodat(AT_FDCWD, "null", S_IFCHR | 0666, (1 << 8) | 3)); }},
    // The control: the calls that the unpacker needs succeed.
    {"mkdir", [] { return Succeeded(mkdirat(AT_FDCWD, "made", 0755)); }},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  auto confined = atl::images::unpack::Confine(
      atl::wire::kUnpackInputFd, atl::wire::kUnpackOutputFd, atl::wire::kUnpackReportFd, {});
  if (!confined) {
    [[maybe_unused]] const auto written =
        atl::sys::WriteAll(atl::wire::kUnpackReportFd, confined.error().message());
    return 100;
  }
  for (const Attempt& attempt : kAttempts) {
    if (attempt.name == wanted) return attempt.run();
  }
  return 101;
}
