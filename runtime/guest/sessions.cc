#include "runtime/guest/sessions.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/guest/groups.h"
#include "runtime/guest/shares.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/rules/seccomp.h"
#include "runtime/spawner/sessions/session_start.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/spawner/slot/slots.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/initramfs.h"
#include "runtime/wire/request.h"
#include "runtime/wire/session.h"

namespace atl::guest {
namespace {

constexpr size_t kPieceSize = 32 << 10;
constexpr size_t kMaxDescriptors = 2;  // those of one request
constexpr int kPatienceMs = 10'000;    // until a session has begun, or its processes have ended

// A session with this capability, in the user namespace of the machine, would find the descriptors
// of its execd in /proc, and by them the initramfs.
constexpr uint64_t kForeign = uint64_t{1} << CAP_SYS_PTRACE;

class Sessions {
 public:
  Sessions(const wire::vm::Go& go, const cgroup::Tree& cgroups, UniqueFd execd, UniqueFd program,
           UniqueFd uppers)
      : go_(go),
        cgroups_(cgroups),
        execd_(std::move(execd)),
        program_(std::move(program)),
        uppers_(std::move(uppers)),
        filter_(spawner::BuildSessionFilter()) {}

  Status Do(wire::SessionRequest request) {
    return std::visit(
        [this](auto& what) {
          if constexpr (requires { what.spec; }) {
            return Make(wire::MakeSessionOf("", std::move(what)));
          } else if constexpr (requires { what.number; }) {
            return End(what.number);
          } else {
            return sys::WriteFileAt(AT_FDCWD, "/proc/sys/vm/drop_caches", "2");
          }
        },
        request.what);
  }

 private:
  Status Make(const wire::MakeSession& message) {
    ATOLL_TRY(spawner::CheckSocket(message.control.get(), false));
    ATOLL_TRY(spawner::CheckSocket(message.connections.get(), false));
    ATOLL_ASSIGN(sys::Pipe report, sys::MakePipe());
    const pid_t pid = ::fork();
    if (pid < 0) return FailSys("fork");
    if (pid == 0) {
      [[maybe_unused]] const Status told =
          sys::WriteAll(report.write.get(), spawner::EncodeOutcome(Build(message)));
      ::_exit(0);
    }
    report.write.reset();
    pollfd reported{report.read.get(), POLLIN, 0};
    if (TEMP_FAILURE_RETRY(::poll(&reported, 1, kPatienceMs)) == 0) {
      ::kill(pid, SIGKILL);
      (void)cgroups_.Kill(spawner::SessionGroup(kSandboxGroup, message.spec.number));
    }
    char piece[spawner::kMaxSessionReport];
    const ssize_t n = TEMP_FAILURE_RETRY(::read(report.read.get(), piece, sizeof piece));
    TEMP_FAILURE_RETRY(::waitpid(pid, nullptr, 0));
    return spawner::DecodeOutcome(std::string(piece, static_cast<size_t>(std::max<ssize_t>(n, 0))));
  }

  // Runs in a process of its own.
  Status Build(const wire::MakeSession& message) const {
    spawner::SessionParts parts{.message = &message,
                                .filter = &filter_,
                                .program = program_.get(),
                                .cgroup_v2 = true,
                                .capabilities = go_.capabilities & ~kForeign,
                                .nofile = go_.nofile};
    ATOLL_TRY(spawner::LimitUsers());
    // A machine has one user namespace, its own, unless a session gets another one.
    if (message.mapped) {
      ATOLL_ASSIGN(parts.user_namespace,
                   spawner::MakeSessionUserNamespace(parts.base, message.user, &parts.execd));
    }
    ATOLL_TRY(spawner::MakeSessionGroup(cgroups_, kSandboxGroup, &parts));
    ATOLL_TRY(MakeUppers(message.spec, &parts));
    return spawner::StartSession(parts, execd_.get());
  }

  Status MakeUppers(const wire::SessionSpec& spec, spawner::SessionParts* parts) const {
    const size_t overlays = spawner::CountOverlays(spec);
    if (overlays == 0) return {};
    const std::string session = std::to_string(spec.number);
    if (::mkdirat(uppers_.get(), session.c_str(), 0700) != 0) return FailSys("mkdir " + session);
    for (size_t i = 0; i < overlays; ++i) {
      const std::string one = session + "/" + std::to_string(i);
      for (const char* name : {"", "/upper", "/work"}) {
        ATOLL_TRY(sys::EnsureDirAt(uppers_.get(), one + name, 0755));
      }
    }
    const std::string path = std::string(kSessionsPath) + "/" + session;
    ATOLL_ASSIGN(parts->store, spawner::CloneMount(AT_FDCWD, path.c_str(), false));
    return spawner::SetMountAttributes(parts->store.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1,
                                       false, MS_PRIVATE);
  }

  Status End(uint32_t number) {
    const std::string group = spawner::SessionGroup(kSandboxGroup, number);
    const Status killed = cgroups_.Kill(group);
    if (!killed && killed.error().error_number() != ENOENT) return killed;
    if (killed) ATOLL_TRY(cgroups_.AwaitEmpty(group, kPatienceMs));
    ATOLL_TRY(cgroups_.RemoveNested(group));
    // Its number is free at once. A large tree is removed meanwhile.
    const std::string session = std::to_string(number);
    const std::string gone = "gone-" + std::to_string(++removed_);
    if (::renameat(uppers_.get(), session.c_str(), uppers_.get(), gone.c_str()) != 0) {
      return errno == ENOENT ? Status() : FailSys("rename the files of session " + session);
    }
    const pid_t pid = ::fork();
    if (pid < 0) return FailSys("fork");
    if (pid > 0) return {};
    (void)sys::RemoveTree(uppers_.get(), gone);
    ::_exit(0);
  }

  const wire::vm::Go& go_;
  const cgroup::Tree& cgroups_;
  const UniqueFd execd_;    // pidfd
  const UniqueFd program_;  // execd's file
  const UniqueFd uppers_;   // kSessionsPath
  const spawner::BpfProgram filter_;
  uint64_t removed_ = 0;
};

// Returns when the line is closed, or when what comes is no request.
void Serve(Sessions& sessions, int line) {
  wire::Frames frames(wire::kMaxSessionRequest);
  std::vector<UniqueFd> descriptors;
  for (;;) {
    auto piece = sys::ReceivePiece(line, kPieceSize);
    // Removers, and the short-lived processes of StartSession.
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!piece || piece->bytes.empty()) return;
    for (UniqueFd& descriptor : piece->fds) descriptors.push_back(std::move(descriptor));
    frames.Append(piece->bytes);
    const auto frame = frames.Next();
    if (!frame || descriptors.size() > kMaxDescriptors) return;
    if (!*frame) continue;
    wire::SessionRequest request;
    std::vector<UniqueFd> sent = std::exchange(descriptors, {});
    if (!wire::DecodeFields(**frame, &request, sent) || frames.pending() != 0) return;
    const Status done = sessions.Do(std::move(request));
    if (!sys::SendMessage(line, wire::Frame(wire::EncodeFields(wire::ReplyOf(done))))) return;
  }
}

}  // namespace

Status StartSessions(const wire::vm::Go& go, const cgroup::Tree& cgroups, UniqueFd line,
                     pid_t execd) {
  ATOLL_ASSIGN(UniqueFd process, sys::PidfdOpen(execd));
  ATOLL_ASSIGN(UniqueFd program, sys::Open(wire::vm::kExecdPath, O_RDONLY));
  ATOLL_ASSIGN(UniqueFd uppers, sys::Open(kSessionsPath, O_RDONLY | O_DIRECTORY));
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid > 0) return {};
  Sessions sessions(go, cgroups, std::move(process), std::move(program), std::move(uppers));
  Serve(sessions, line.get());
  ::_exit(0);
}

}  // namespace atl::guest
