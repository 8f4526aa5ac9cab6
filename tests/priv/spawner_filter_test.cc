// Calls that the sandboxes' filter refuses by itself. The test plays them as the host's root, to
// whom the kernel would not refuse them. Inside a sandbox, the missing capabilities give the same
// answer as the filter.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/spawner/rules/seccomp.h"
#include "tests/priv/priv_test.h"

namespace atl::priv {
namespace {

struct Gateway {
  const char* name;
  long number;
  int error = EPERM;
};

// Leaves out calls that a kernel in lockdown refuses to root, and calls that have an effect without
// arguments.
constexpr Gateway kGateways[] = {
    {"mount", SYS_mount},
    {"umount2", SYS_umount2},
    {"pivot_root", SYS_pivot_root},
    {"fsopen", SYS_fsopen},
    {"fsconfig", SYS_fsconfig},
    {"fsmount", SYS_fsmount},
    {"fspick", SYS_fspick},
    {"move_mount", SYS_move_mount},
    {"open_tree", SYS_open_tree},
    {"mount_setattr", SYS_mount_setattr},
    {"unshare", SYS_unshare},
    {"sethostname", SYS_sethostname},
    {"setdomainname", SYS_setdomainname},
    {"syslog", SYS_syslog},
    {"reboot", SYS_reboot},
    {"delete_module", SYS_delete_module},
    {"acct", SYS_acct},
    {"swapon", SYS_swapon},
    {"swapoff", SYS_swapoff},
    {"settimeofday", SYS_settimeofday},
    {"clock_settime", SYS_clock_settime},
    {"quotactl", SYS_quotactl},
    {"quotactl_fd", SYS_quotactl_fd},
    {"add_key", SYS_add_key},
    {"request_key", SYS_request_key},
    {"keyctl", SYS_keyctl},
    {"bpf", SYS_bpf},
    {"perf_event_open", SYS_perf_event_open},
    {"io_uring_setup", SYS_io_uring_setup},
    {"userfaultfd", SYS_userfaultfd},
    {"fanotify_init", SYS_fanotify_init},
    {"fanotify_mark", SYS_fanotify_mark},
    {"mbind", SYS_mbind},
    {"migrate_pages", SYS_migrate_pages},
    {"open_by_handle_at", SYS_open_by_handle_at},
    {"name_to_handle_at", SYS_name_to_handle_at, ENOSYS},
    {"remap_file_pages", SYS_remap_file_pages, ENOSYS},
    {"statmount", 457, ENOSYS},
    {"listmount", 458, ENOSYS},
};

// Makes the call with arguments that no call accepts.
int ErrorOf(long number) {
  errno = 0;
  const long result = ::syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
  return result == -1 ? errno : 0;
}

int ErrorOfRaw(int family, int protocol) {
  const int fd = ::socket(family, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

PRIV_TEST(SpawnerFilter, RefusesWhatTheKernelWouldNot) {
  for (const Gateway& gateway : kGateways) {
    EXPECT_NE(ErrorOf(gateway.number), EPERM) << gateway.name << " is refused without a filter";
  }
  EXPECT_EQ(ErrorOfRaw(AF_INET, IPPROTO_ICMP), 0);
  EXPECT_EQ(ErrorOfRaw(AF_INET6, IPPROTO_ICMPV6), 0);
  const Status loaded = spawner::LoadFilter(spawner::BuildSandboxFilter());
  ASSERT_TRUE(loaded) << loaded.error().message();
  for (const Gateway& gateway : kGateways) {
    EXPECT_EQ(ErrorOf(gateway.number), gateway.error) << gateway.name;
  }
  EXPECT_EQ(ErrorOf(SYS_clock_adjtime), EFAULT);  // the kernel's error
  EXPECT_EQ(ErrorOfRaw(AF_INET, IPPROTO_ICMP), EPERM);
  EXPECT_EQ(ErrorOfRaw(AF_INET6, IPPROTO_ICMPV6), EPERM);
}

}  // namespace
}  // namespace atl::priv
