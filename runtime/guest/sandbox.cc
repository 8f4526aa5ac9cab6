#include "runtime/guest/sandbox.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/guest/shares.h"
#include "runtime/spawner/kernel/devices.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/wire/initramfs.h"
#include "runtime/wire/start.h"

namespace atl::guest {
namespace {

using spawner::Attach;
using spawner::CloneMount;
using spawner::kNoSuidDevExec;
using spawner::NewMount;
using spawner::SetMountAttributes;

constexpr gid_t kTty = 5;  // the group in Debian, Alpine and Fedora alike

Status MountAt(int dir, const char* name, const char* type, const spawner::MountOptions& options,
               uint64_t attributes) {
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenBeneath(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd mount, NewMount(type, options, attributes));
  return Attach(mount.get(), target.get(), name);
}

Status MountDevices(int root, uint64_t shm_bytes) {
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenBeneath(root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd dev, spawner::MountDeviceNodes(target.get()));
  ATOLL_ASSIGN(const UniqueFd pts, sys::OpenBeneath(dev.get(), "pts", O_PATH | O_DIRECTORY));
  ATOLL_TRY(spawner::MountTerminals(pts.get(), kTty, spawner::kMaxTerminals));
  ATOLL_TRY(MountAt(dev.get(), "shm", "tmpfs",
                    {{"mode", "1777"}, {"size", std::to_string(shm_bytes)}}, kNoSuidDevExec));
  return MountAt(dev.get(), "mqueue", "mqueue", {}, kNoSuidDevExec);
}

// Mounts /proc, whose switches of the kernel nobody changes from inside, and over /proc/1/fd the
// standard streams of the sandbox's program.
Status MountProc(int root) {
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenBeneath(root, "proc", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd proc, NewMount("proc", {}, kNoSuidDevExec));
  ATOLL_TRY(Attach(proc.get(), target.get(), "/proc"));
  for (const char* name : {"sys", "sysrq-trigger"}) {
    ATOLL_ASSIGN(const UniqueFd there, sys::OpenBeneath(proc.get(), name, O_PATH | O_NOFOLLOW));
    ATOLL_ASSIGN(const UniqueFd cover, CloneMount(proc.get(), name, false));
    ATOLL_TRY(SetMountAttributes(cover.get(), MOUNT_ATTR_RDONLY, -1, false));
    ATOLL_TRY(Attach(cover.get(), there.get(), name));
  }
  ATOLL_ASSIGN(const UniqueFd own, sys::OpenBeneath(proc.get(), "1/fd", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd streams,
               NewMount("tmpfs", {{"mode", "0755"}, {"size", "4k"}, {"nr_inodes", "4"}}, 0));
  ATOLL_TRY(spawner::MakeStreams(streams.get()));
  ATOLL_TRY(SetMountAttributes(streams.get(), kNoSuidDevExec | MOUNT_ATTR_RDONLY, -1, false));
  return Attach(streams.get(), own.get(), "/proc/1/fd");
}

Status MountSys(int root) {
  constexpr uint64_t kAttributes = kNoSuidDevExec | MOUNT_ATTR_RDONLY;
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenBeneath(root, "sys", O_PATH | O_DIRECTORY | O_NOFOLLOW));
  ATOLL_ASSIGN(const UniqueFd sysfs, NewMount("sysfs", {}, kAttributes));
  ATOLL_TRY(Attach(sysfs.get(), target.get(), "/sys"));
  return MountAt(sysfs.get(), "fs/cgroup", "cgroup2", {}, kAttributes);
}

// Puts the root over the initramfs. A path cannot leave what is on top of a namespace's first
// mount (path_resolution(7)).
Status EnterRoot(int root) {
  if (::fchdir(root) != 0) return FailSys("fchdir to the root");
  if (::mount(".", "/", nullptr, MS_MOVE, nullptr) != 0) return FailSys("mount MS_MOVE");
  if (::chroot(".") != 0) return FailSys("chroot");
  if (::chdir("/") != 0) return FailSys("chdir /");
  return {};
}

// Puts the descriptors of wire/start.h in place. Returns the program.
Result<int> Place(int execd, int sessions, int commands, int score) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return FailSys("open /dev/null");
  DescriptorMove moves[] = {{execd, kKeptAbove},
                            {null.get(), 0},
                            {null.get(), 1},
                            {null.get(), 2},
                            {sessions, wire::kExecdSessionsFd},
                            {commands, wire::kExecdCgroupFd},
                            {score, wire::kExecdScoreFd}};
  ATOLL_TRY(MoveDescriptors(moves));
  return moves[0].from;
}

Result<int> Furnish(const wire::vm::Go& go, const Groups& groups, int sessions, int execd) {
  if (::sethostname(go.hostname.data(), go.hostname.size()) != 0) return FailSys("sethostname");
  ::setsid();
  ::umask(0);
  if (::setns(groups.name_space.get(), CLONE_NEWCGROUP) != 0) return FailSys("setns cgroup");
  ATOLL_ASSIGN(const UniqueFd root, sys::Open(kRootPath, O_PATH | O_DIRECTORY));
  ATOLL_TRY(MountDevices(root.get(), go.shm_bytes));
  ATOLL_TRY(MountProc(root.get()));
  ATOLL_TRY(MountSys(root.get()));
  ATOLL_TRY(EnterRoot(root.get()));
  ATOLL_ASSIGN(const UniqueFd score, sys::Open("/proc/self/oom_score_adj", O_WRONLY));
  ATOLL_TRY(spawner::LimitProcess(go.nofile));
  ATOLL_TRY(spawner::SetCapabilities(go.capabilities, 0));
  return Place(execd, sessions, groups.commands.get(), score.get());
}

// Says what has failed, or nothing, because the pipe closes when execd is executed.
[[noreturn]] void BecomeExecd(const wire::vm::Go& go, const Groups& groups, int sessions, int execd,
                              int report) {
  const auto program = Furnish(go, groups, sessions, execd);
  Error error = program ? Error(Code::kInternal, "") : program.error();
  if (program) {
    const std::string port = "--vsock-port=" + std::to_string(wire::vm::kExecPort);
    spawner::ExecuteFirst(*program, "execd", port.c_str());
    error = SysError("execveat execd");
  }
  [[maybe_unused]] const Status said = sys::WriteAll(report, error.message());
  ::_exit(126);
}

}  // namespace

Result<pid_t> StartSandbox(const wire::vm::Go& go, const Groups& groups, UniqueFd sessions) {
  ATOLL_ASSIGN(const UniqueFd execd, sys::Open(wire::vm::kExecdPath, O_RDONLY));
  ATOLL_ASSIGN(sys::Pipe report, sys::MakePipe());
  clone_args args{};
  args.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_INTO_CGROUP;
  args.cgroup = static_cast<uint64_t>(groups.execd.get());
  args.exit_signal = SIGCHLD;
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  if (pid < 0) return FailSys("clone3");
  if (pid == 0) BecomeExecd(go, groups, sessions.get(), execd.get(), report.write.get());
  report.write.reset();
  ATOLL_ASSIGN(const std::string failure, sys::ReadAll(report.read.get(), wire::vm::kMaxFailure));
  if (!failure.empty()) return Fail(Code::kInternal, failure);
  return pid;
}

}  // namespace atl::guest
