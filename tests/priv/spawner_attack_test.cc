// Attacks of a hostile program on the kernel, played from inside a sandbox, as its root user and
// with every capability that it is given.

#include <grp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/base/project_quota.h"
#include "runtime/spawner/rules/config.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

// Runs the attacks that `expected` names. `expected` is the output of attack-probe.
void ExpectAttacks(const std::string& expected) {
  std::string command = "/bin/attack";
  for (size_t at = 0; at < expected.size(); at = expected.find('\n', at) + 1) {
    command += " " + expected.substr(at, expected.find(':', at) - at);
  }
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.Run(command), expected);
}

PRIV_TEST(SpawnerAttack, SocketFamiliesAreAnAllowList) {
  ExpectAttacks(
      "alg: EAFNOSUPPORT\n"
      "key: EAFNOSUPPORT\n"
      "rxrpc: EAFNOSUPPORT\n"
      "xfrm: EAFNOSUPPORT\n"
      "netfilter: EAFNOSUPPORT\n"
      "packet: EAFNOSUPPORT\n"
      "vsock: EAFNOSUPPORT\n"
      "dccp: ESOCKTNOSUPPORT\n"
      "dccp6: ESOCKTNOSUPPORT\n"
      "no-type: ESOCKTNOSUPPORT\n"
      "seqpacket: ESOCKTNOSUPPORT\n"
      "sctp: EPROTONOSUPPORT\n"
      "mptcp: EPROTONOSUPPORT\n"
      "stream-udp: EPROTONOSUPPORT\n"
      "datagram-tcp: EPROTONOSUPPORT\n"
      "icmp6-of-4: EPROTONOSUPPORT\n"
      "icmp-of-6: EPROTONOSUPPORT\n"
      "sock-diag: EAFNOSUPPORT\n"
      "raw: EPERM\n"
      "raw6: EPERM\n"
      "raw-0: EPERM\n"
      "route: ALLOWED\n"
      "ping: ALLOWED\n"
      "ping6: ALLOWED\n"
      "tcp: ALLOWED\n"
      "tcp6: ALLOWED\n"
      "udp4: ALLOWED\n"
      "udp: ALLOWED\n");
}

PRIV_TEST(SpawnerAttack, OtherAbisAreKilled) {
  ExpectAttacks(
      "alg-x32: killed SIGSYS\n"
      "alg-i386: killed SIGSYS\n"
      "socketcall-i386: killed SIGSYS\n");
}

// strace and gdb cancel calls. The filter must not kill the process that they trace.
PRIV_TEST(SpawnerAttack, ATracerHasNoOtherCalls) {
  ExpectAttacks(
      "no-call: ENOSYS\n"
      "traced-unshare: EPERM\n"
      "traced-x32: killed SIGSYS\n"
      "traced-taken-back: EMFILE\n");
}

PRIV_TEST(SpawnerAttack, NoNamespaceCanBeMadeOrEntered) {
  // The filter allows clone3 for execd alone, because it cannot read the flags of clone3.
  ExpectAttacks(
      "unshare-user: EPERM\n"
      "unshare-net: EPERM\n"
      "unshare-mount: EPERM\n"
      "clone-user: EPERM\n"
      "clone-net: EPERM\n"
      "clone-each-odd: EPERM\n"
      "clone3-user: ENOSYS\n"
      "clone3-user-net: ENOSYS\n"
      "setns: EPERM\n"
      "setns-odd: EPERM\n"
      "user-limits: EACCES\n");
}

PRIV_TEST(SpawnerAttack, KernelGatewaysAreClosed) {
  ExpectAttacks(
      "mount-odd: EPERM\n"
      "umount-odd: EPERM\n"
      "open-tree-odd: EPERM\n"
      "fsopen: EPERM\n"
      "mount: EPERM\n"
      "remount: EPERM\n"
      "umount: EPERM\n"
      "open-tree: EPERM\n"
      "pivot: EPERM\n"
      "fanotify: EPERM\n"
      "io-uring: EPERM\n"
      "bpf: EPERM\n"
      "userfaultfd: EPERM\n"
      "perf: EPERM\n"
      "keyctl: EPERM\n"
      "add-key: EPERM\n"
      "kexec: EPERM\n"
      "init-module: EPERM\n"
      "syslog: EPERM\n"
      "personality: EPERM\n"
      "hostname: EPERM\n"
      "unknown-call: ENOSYS\n");
}

PRIV_TEST(SpawnerAttack, ChrootLeadsNowhere) {
  ExpectAttacks(
      "chroot: ALLOWED\n"
      "chroot-unprivileged: EPERM\n"
      "chroot-escape: EPERM\n");
}

PRIV_TEST(SpawnerAttack, NoBudgetOfTheHostIsTaken) {
  ExpectAttacks(
      "attach-filter: ENOPROTOOPT\n"
      "attach-reuseport-filter: ENOPROTOOPT\n"
      "attach-bpf: ENOPROTOOPT\n"
      "attach-reuseport-bpf: ENOPROTOOPT\n"
      "reuse-port: ALLOWED\n"
      "flow-label: ENOPROTOOPT\n"
      "v6-only: ALLOWED\n"
      "seccomp: EINVAL\n"
      "seccomp-prctl: EINVAL\n"
      "aio: ENOSYS\n"
      "huge-mmap: ENOMEM\n"
      "huge-memfd: ENOMEM\n"
      "memfd-all-flags: EINVAL\n"
      "memfd: ALLOWED\n"
      "huge-shm: ENOMEM\n");
}

PRIV_TEST(SpawnerAttack, NoSignalToEverybody) {
  ExpectAttacks(
      "signal-everybody: EPERM\n"
      "signal-everybody-wide: EPERM\n"
      "signal-itself: ALLOWED\n"
      "signal-own-group: ALLOWED\n");
}

// The kernel runs a piped core_pattern unless the limit is 1.
PRIV_TEST(SpawnerAttack, CrashesAreNobodysBusiness) {
  ExpectAttacks(
      "core-to-none: EPERM\n"
      "core-to-none-prlimit: EPERM\n"
      "core-to-none-and-read: EPERM\n");
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.Run("/bin/busybox grep 'core file' /proc/self/limits | "
                        "/bin/busybox tr -s ' '"),
            "Max core file size 1 1 bytes \n");
}

PRIV_TEST(SpawnerAttack, DevicesAndHandles) {
  ExpectAttacks(
      "handle: EPERM\n"
      "name-to-handle: ENOSYS\n"
      "mknod-block: EPERM\n"
      "mknod-char: EPERM\n"
      "open-kmsg: ENOENT\n"
      "open-mem: ENOENT\n"
      "mknod-in-dev: EPERM\n");
}

// Without quotas the answers are the same. quota_test.cc runs these attacks where there are quotas.
PRIV_TEST(SpawnerAttack, FlagsAndProjectsOfFilesStayAsTheyAre) {
  ExpectAttacks(
      "chattr-image-dir: ENOTTY\n"
      "chattr-own-dir: ENOTTY\n"
      "project-image-dir: ENOTTY\n"
      "project-image-file: ENOTTY\n"
      "file-setattr: ENOSYS\n");
}

// A limit that cannot be enforced is refused, not ignored. quota_test.cc tests one that can be
// enforced.
PRIV_TEST(SpawnerAttack, ADiskLimitWithoutQuotasIsRefused) {
  SpawnerFixture spawner;
  const auto& available = spawner.hello().limits_available;
  if (std::find(available.begin(), available.end(), "disk") != available.end()) return;
  cgroup::Limits limits = SpawnerFixture::DefaultLimits();
  limits.disk_bytes = 1 << 30;
  const Status refused = spawner.Prepare(1, limits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.error().message().find(quota::Remedy()), std::string::npos);
  ASSERT_TRUE(spawner.Prepare(1));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.limits = limits;
  EXPECT_FALSE(spawner.Build(plan));
  EXPECT_EQ(spawner.Run("echo without"), "without\n");
}

PRIV_TEST(SpawnerAttack, HostSettingsAreReadOnly) {
  SpawnerFixture spawner;
  const std::string output = spawner.Run(
      "/bin/attack core-pattern modprobe sysrq-switch sysrq binfmt uevent-helper release-agent "
      "cgroup-procs cgroup-mkdir cgroup-v1-limit cgroup-v1-quota cgroup-v1-procs oom-down");
  EXPECT_EQ(output.find("ALLOWED"), std::string::npos) << output;
  for (const char* expected :
       {"core-pattern: EACCES", "cgroup-procs: EROFS", "cgroup-mkdir: EROFS"}) {
    EXPECT_NE(output.find(expected), std::string::npos) << expected << " in\n" << output;
  }
  // The files' owner makes the kernel refuse first. The read-only mounts would refuse, too.
  EXPECT_EQ(spawner.Run("/bin/busybox grep -E ' /(sys|proc/sys|sys/fs/cgroup) ' /proc/mounts | "
                        "/bin/busybox cut -d' ' -f2,4 | /bin/busybox cut -d, -f1"),
            "/sys ro\n/sys/fs/cgroup ro\n/proc/sys ro\n");
}

PRIV_TEST(SpawnerAttack, HostInformationIsHidden) {
  SpawnerFixture spawner;
  // E6: the host's addresses, key rings, timers and interrupts read as nothing.
  EXPECT_EQ(spawner.Run("cd /proc; B=/bin/busybox; for f in kallsyms keys key-users timer_list "
                        "interrupts kcore kmsg vmallocinfo slabinfo modules; do "
                        "$B cat $f 2>/dev/null | $B head -c 20; done; "
                        "$B ls -A acpi bus fs irq scsi asound /sys/firmware 2>/dev/null | "
                        "$B grep -v : | $B grep ."),
            "");
  EXPECT_EQ(spawner.Run("/bin/attack open-kmsg syslog"), "open-kmsg: ENOENT\nsyslog: EPERM\n");
}

PRIV_TEST(SpawnerAttack, SetuidProgramGainsNothing) {
  SpawnerFixture spawner;
  // Runs a copy of attack-probe, because busybox drops such rights by itself before it runs most of
  // its applets.
  EXPECT_EQ(spawner.Run("B=/bin/busybox; $B cp /bin/attack /suid/attack; "
                        "$B chmod 4755 /suid/attack; $B ls -l /suid/attack | $B cut -c1-10; "
                        "/suid/attack effective-root; "
                        "/bin/attack as 1000 /suid/attack effective-root"),
            "-rwsr-xr-x\neffective-root: ALLOWED\neffective-root: EPERM\n");
  // Either defence is enough. IdentityInside checks no_new_privs, this checks the mount.
  EXPECT_EQ(spawner.Run("/bin/busybox grep -c '^[^ ]* / .*nosuid,nodev' /proc/mounts"), "1\n");
}

// Only 0 to 2 and the descriptors that execd is given are open. The next number is the shell that
// reads the directory. Files of its v1 groups exist on hybrid hosts only.
PRIV_TEST(SpawnerAttack, OnlyItsOwnDescriptors) {
  SpawnerFixture spawner;
  const bool v2 = spawner.hello().cgroup_v2;
  const std::string accounts =
      v2 ? ""
         : "11 memory.usage\n12 memory.limit\n13 memory.oom\n14 cpu.cfs\n15 pids.events\n"
           "16 anon_inode:[eventfd]\n";
  const std::string tasks = v2 ? "" : "7 memory\n8 pids\n";
  const std::string own = v2 ? "7" : "9";
  EXPECT_EQ(
      spawner.Run("B=/bin/busybox; for f in /proc/$$/task/$$/fd/*; do t=$($B readlink $f); "
                  "case $t in socket:*) t=socket;; pipe:*) t=pipe;; */atoll*/s1/run) t=directory;; "
                  "*/memory/atoll*/s1/run/tasks) t=memory;; "
                  "*/pids/atoll*/s1/run/tasks) t=pids;; "
                  "*/atoll*/s1/run/memory.*|*/atoll*/s1/cpu.*|*/atoll*/s1/run/pids.*) t=${t##*/}; "
                  "t=${t%%_*};; "
                  "/proc/1/oom_score_adj) t=score;; esac; "
                  "test ${f##*/} = " +
                  own + " || echo ${f##*/} $t; done"),
      "0 socket\n1 socket\n" + accounts +
          "17 score\n2 socket\n3 pipe\n4 socket\n5 socket\n6 directory\n" + tasks);
}

PRIV_TEST(SpawnerAttack, IdentityInside) {
  constexpr gid_t kOfTheHost = 4711;  // a group of the spawner's process
  ASSERT_EQ(::setgroups(1, &kOfTheHost), 0);
  SpawnerFixture spawner;
  const std::string base = std::to_string(spawner::SandboxIdBase(spawner.hello().instance, 1));
  EXPECT_EQ(spawner.Run("B=/bin/busybox; $B grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:|Groups' "
                        "/proc/self/status | $B tr -s '\\t ' ' '; $B cat /proc/self/uid_map | "
                        "$B tr -s ' '; $B cat /proc/self/cgroup | $B tail -1; ulimit -c"),
            std::string("Groups: \n"
                        "CapEff: 00000000000405fb\n"
                        "CapBnd: 00000000000405fb\n"
                        "NoNewPrivs: 1\n"
                        "Seccomp: 2\n 0 ") +
                base +
                " 65536\n"
                "0::/execd\n"
                "0\n");
}

}  // namespace
}  // namespace atl::priv
