#include "runtime/spawner/layers/unpacker.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/move_descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/wire/start.h"
#include "runtime/wire/unpack.h"

namespace atl::spawner {
namespace {

// Each process also has a limit of its own (images/unpack/confine.cc), so that none takes the room
// of the others.
constexpr cgroup::Limits kUnpackLimits{.memory_bytes = uint64_t{2} << 30, .pids = 64};
constexpr int kKillPatienceMs = 5000;

[[noreturn]] void Child(const Host& host, const std::vector<std::string>& arguments, int go,
                        const std::vector<int>& sources, const std::vector<UniqueFd>& tasks) {
  const int report = sources[2];
  for (const UniqueFd& group : tasks) {
    if (::write(group.get(), "0", 1) != 1) ::_exit(125);
  }
  // The maps come from the parent; end of file means that it could not write them.
  char byte;
  if (TEMP_FAILURE_RETRY(::read(go, &byte, 1)) != 1) ::_exit(125);
  if (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0 ||
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    ::_exit(125);
  }
  EndWithParent();
  // The parent cannot be seen from another pid namespace. But it holds the other end of this pipe
  // open for as long as it lives.
  pollfd other_end{report, 0, 0};
  if (::poll(&other_end, 1, 0) != 0) ::_exit(125);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  std::vector<DescriptorMove> moves = {
      {host.unpack.get(), kKeptAbove}, {null, 0}, {null, 1}, {null, 2}};
  int number = wire::kUnpackInputFd;
  for (const int source : sources) moves.push_back({source, number++});
  if (!MoveDescriptors(moves)) ::_exit(125);
  const int program = moves.front().from;
  char name[] = "atoll-unpack";
  std::vector<char*> argv = {name};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  char* const envp[] = {nullptr};
  ::syscall(SYS_execveat, program, "", argv.data(), envp, AT_EMPTY_PATH);
  ::_exit(127);
}

}  // namespace

Status MakeUnpackGroup(const Host& host) {
  ATOLL_TRY(host.cgroups.CreateGroup(kUnpackGroup));
  ATOLL_TRY(host.cgroups.DelegateGroup(kUnpackGroup, 0));
  return host.cgroups.SetLimits(kUnpackGroup, {}, OnlyKept(host, kUnpackLimits));
}

Status RemoveUnpackGroup(const cgroup::Tree& cgroups) {
  const Status killed = cgroups.Kill(kUnpackGroup);
  if (!killed) return killed.error().error_number() == ENOENT ? Status() : killed;
  ATOLL_TRY(cgroups.AwaitEmpty(kUnpackGroup, kKillPatienceMs));
  return cgroups.RemoveGroup(kUnpackGroup);
}

Result<pid_t> StartUnpacker(const Host& host, const std::vector<std::string>& arguments, int input,
                            int output, int report, std::span<const UniqueFd> layers) {
  // Sorted by the number that each gets there.
  std::vector<int> sources = {input, output, report};
  for (const UniqueFd& layer : layers) sources.push_back(layer.get());
  ATOLL_ASSIGN(const sys::Pipe go, sys::MakePipe());
  ATOLL_ASSIGN(const UniqueFd group, host.cgroups.OpenDir(kUnpackGroup, "execd"));
  ATOLL_ASSIGN(const std::vector<UniqueFd> tasks, host.cgroups.OpenTasks(kUnpackGroup));
  std::vector<int> keep = sources;
  keep.insert(keep.end(), {go.read.get(), host.unpack.get()});
  for (const UniqueFd& file : tasks) keep.push_back(file.get());
  ATOLL_ASSIGN(
      const pid_t pid,
      StartWorker({.name = "atoll-unpack",
                   .namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                 CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
                   .cgroup = group.get()},
                  keep, [&] { Child(host, arguments, go.read.get(), sources, tasks); }));
  // After a failure here the child reads the end of file, and ends.
  ATOLL_TRY(WriteIdMaps(pid, {0, kStoreIdBase}));
  // This process may be the host's last choice for an out-of-memory kill, as the servant of its
  // unit. A process that reads a stranger's files must not be.
  ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/oom_score_adj",
                             wire::kOomScore));
  [[maybe_unused]] const ssize_t n = ::write(go.write.get(), "", 1);
  return pid;
}

Result<std::string> UnpackerResult(int wait_status, std::string text) {
  if (WIFSIGNALED(wait_status)) {
    return Fail(Code::kInternal,
                "atoll-unpack was killed by signal " + std::to_string(WTERMSIG(wait_status)));
  }
  if (WEXITSTATUS(wait_status) == 0) return text;
  if (text.empty()) {
    text = "atoll-unpack ended with status " + std::to_string(WEXITSTATUS(wait_status));
  }
  return Fail(Code::kInternal, std::move(text));
}

}  // namespace atl::spawner
