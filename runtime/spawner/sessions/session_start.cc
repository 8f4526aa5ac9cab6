#include "runtime/spawner/sessions/session_start.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/kernel/vfork_clone.h"
#include "runtime/spawner/sessions/session_mounts.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/frame.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
namespace {

constexpr char kHostname[] = "sandbox";
constexpr char kStarted[] = "+";

struct SessionState {
  const SessionParts& parts;
  uint64_t pass = 0;
  UniqueFd sysctls;
  UniqueFd score;
};

std::vector<int> Borrow(const std::vector<UniqueFd>& owned) {
  std::vector<int> fds;
  for (const UniqueFd& fd : owned) fds.push_back(fd.get());
  return fds;
}

// A map of uids or of gids for a session's user namespace. It has two lines of one id each.
//
// The first line maps the id that the client asked for to the id of its user in the sandbox. The
// map holds no other id that the sandbox uses, because root in the namespace has rights over the
// files of every mapped id.
//
// The second line is execd's. It maps 0, as which execd runs. If the client asked for 0, execd
// shares that id with its commands; then the line maps 65534, the saved gid with which execd
// protects its limits (execd/main.cc). Outside, the second line has the sandbox's last id, which
// nobody uses. If the user has the last id, it is the third last: the one between, 65534, belongs
// to the user "nobody".
struct UserMap {
  std::string lines;
  uid_t root = 0;  // an id of the host
};
Result<UserMap> MapUser(uid_t base, uint32_t inside, uint32_t outside) {
  if (outside >= kIdsPerSandbox) {
    return Fail(Code::kInvalidArgument,
                "session: " + std::to_string(outside) + " is no id of the sandbox's");
  }
  constexpr uint32_t kLast = kIdsPerSandbox - 1;
  const uid_t user = base + outside;
  const uid_t spare = base + (outside == kLast ? kLast - 2 : kLast);
  return UserMap{std::to_string(inside) + " " + std::to_string(user) + " 1\n" +
                     (inside == 0 ? "65534 " : "0 ") + std::to_string(spare) + " 1\n",
                 inside == 0 ? user : spare};
}

Status EnterGroups(SessionState& state) {
  for (const UniqueFd& tasks : state.parts.tasks) ATOLL_TRY(sys::WriteAll(tasks.get(), "0"));
  ::setsid();
  if (::setns(state.parts.cgroup_namespace.get(), CLONE_NEWCGROUP) != 0) {
    return FailSys("setns cgroup");
  }
  if (::sethostname(kHostname, sizeof kHostname - 1) != 0) return FailSys("sethostname");
  return {};
}

Status Furnish(SessionState& state) {
  const wire::MakeSession& message = *state.parts.message;
  ATOLL_ASSIGN(SessionFurniture furniture, FurnishSession({.spec = &message.spec,
                                                           .base = state.parts.base,
                                                           .store = state.parts.store.get(),
                                                           .cgroup_v2 = state.parts.cgroup_v2}));
  state.sysctls = std::move(furniture.sysctls);
  wire::SessionUppers uppers{std::move(furniture.uppers)};
  if (uppers.directories.empty() || !message.tell_uppers) return {};
  const wire::Packet packet = wire::EncodePacket(uppers);
  return sys::SendMessage(message.control.get(), wire::Frame(packet.bytes), packet.descriptors);
}

Status LimitIt(SessionState& state) {
  return LimitProcess(state.parts.nofile);
}

Status LoadSeccomp(SessionState& state) {
  return LoadFilter(WithPass(*state.parts.filter, state.pass));
}

Status EnterUser(SessionState& state) {
  const uint64_t capabilities = state.parts.capabilities & ~(uint64_t{1} << CAP_SYS_CHROOT);
  if (!state.parts.user_namespace) {
    ATOLL_ASSIGN(state.score, sys::Open("/proc/self/oom_score_adj", O_WRONLY));
    return SetCapabilities(capabilities, 0);
  }
  // The sandbox's own is sealed already.
  const int sysctls = state.parts.message->mapped ? state.sysctls.get() : -1;
  ATOLL_ASSIGN(state.score, EnterUserNamespace(state.parts.user_namespace.get(), state.pass,
                                               sysctls, capabilities, 0));
  return {};
}

struct SessionStep {
  const char* name;
  Status (*run)(SessionState&);
};
// The order is that of a slot: the user namespace after the last mount, the filter before it.
constexpr SessionStep kSessionSteps[] = {
    {"groups", EnterGroups},  {"mounts", Furnish}, {"rlimits", LimitIt},
    {"seccomp", LoadSeccomp}, {"user", EnterUser},
};

struct SessionStart {
  const SessionParts* parts;
  int gate = -1;
  uint64_t pass = 0;
  Status status = Fail(Code::kInternal, "the session's first process died");
};

Result<int> RunSessionSteps(const SessionStart& start) {
  const SessionParts& parts = *start.parts;
  SessionState state{.parts = parts, .pass = start.pass, .sysctls = {}, .score = {}};
  for (const SessionStep& step : kSessionSteps) {
    Status done = step.run(state);
    if (!done) return Fail(std::move(done).error().Wrap(std::string("session step ") + step.name));
  }
  return PlaceDescriptors({.program = parts.program,
                           .gate = start.gate,
                           .control = parts.message->control.get(),
                           .listener = parts.message->connections.get(),
                           .commands = parts.commands.get(),
                           .score = state.score.get(),
                           .command_tasks = Borrow(parts.command_tasks),
                           .accounts = Borrow(parts.accounts)});
}

void RunSession(void* argument) {
  auto* start = static_cast<SessionStart*>(argument);
  int program = -1;
  {
    const Result<int> placed = RunSessionSteps(*start);
    if (placed) {
      program = *placed;
    } else {
      start->status = Fail(placed.error());
    }
  }
  if (program < 0) ::_exit(126);
  start->status = Status();
  ExecuteFirst(program, "execd", "--session=1");
  start->status = FailSys("execveat execd");
  ::_exit(126);
}

struct Inside {
  uint64_t flags;
  SessionStart start;
  bool over = false;
};

void RunInside(void* argument) {
  auto* inside = static_cast<Inside*>(argument);
  const auto pid =
      Vfork(inside->flags, inside->start.parts->leaf.get(), RunSession, &inside->start);
  if (!pid) inside->start.status = Fail(pid.error());
  inside->over = true;
  ::_exit(0);
}

}  // namespace

Result<UniqueFd> MakeSessionUserNamespace(uid_t base, const wire::SessionUser& user, uid_t* root) {
  ATOLL_ASSIGN(const UserMap uids, MapUser(base, user.uid, user.sandbox_uid));
  ATOLL_ASSIGN(const UserMap gids, MapUser(base, user.gid, user.sandbox_gid));
  *root = uids.root;
  return MakeUserNamespace(base, uids.lines, gids.lines);
}

std::string EncodeOutcome(const Status& started) {
  if (started) return kStarted;
  const Error& error = started.error();
  return wire::EncodeFields(wire::Failed::Of(
      Error(error.code(), error.message().substr(0, kMaxSessionReport / 2), error.error_number())));
}

Status DecodeOutcome(const std::string& text) {
  if (text == kStarted) return {};
  wire::Failed failed{.code = Code::kInternal, .message = "the session's builder died"};
  [[maybe_unused]] const bool told = wire::DecodeFields(text, &failed);
  return Fail(failed.error());
}

std::string SessionGroup(const std::string& sandbox, uint32_t number) {
  return sandbox + "/run/x" + std::to_string(number);
}

size_t CountOverlays(const wire::SessionSpec& spec) {
  return static_cast<size_t>(std::count_if(
      spec.mounts.begin(), spec.mounts.end(),
      [](const auto& mount) { return mount.kind >= wire::SessionMount::Kind::kOverlay; }));
}

cgroup::Limits LimitsOf(const wire::SessionTerms& terms) {
  cgroup::Limits limits;
  limits.memory_bytes = terms.memory_bytes;
  limits.pids = terms.pids;
  limits.cpu_millis = terms.cpu_millis;
  return limits;
}

Status MakeSessionGroup(const cgroup::Tree& cgroups, const std::string& sandbox,
                        SessionParts* parts) {
  const std::string group = SessionGroup(sandbox, parts->message->spec.number);
  const cgroup::Limits limits = LimitsOf(parts->message->terms);
  ATOLL_TRY(cgroups.CreateNested(group, limits));
  ATOLL_ASSIGN(const UniqueFd directory, cgroups.OpenDir(group, ""));
  ATOLL_ASSIGN(const std::vector<UniqueFd> tasks, cgroups.OpenTasks(sandbox));
  ATOLL_ASSIGN(parts->cgroup_namespace, MakeCgroupNamespace(directory.get(), tasks));
  ATOLL_TRY(cgroups.DelegateGroup(group, parts->execd));
  ATOLL_TRY(cgroups.SetLimits(group, {}, limits));
  ATOLL_TRY(cgroups.ShowLimits(group));
  ATOLL_ASSIGN(parts->tasks, cgroups.OpenTasks(group));
  ATOLL_ASSIGN(parts->command_tasks, cgroups.OpenRunTasks(group));
  ATOLL_ASSIGN(parts->accounts, cgroups.OpenAccounts(group));
  ATOLL_ASSIGN(parts->leaf, cgroups.OpenDir(group, "execd"));
  ATOLL_ASSIGN(parts->commands, cgroups.OpenDir(group, "run"));
  return {};
}

Status StartSession(const SessionParts& parts, int sandbox) {
  uint64_t pass = 0;
  if (::getrandom(&pass, sizeof pass, 0) != sizeof pass) return FailSys("getrandom");
  // The process already stands in its root, so the gate is open.
  ATOLL_ASSIGN(sys::Pipe gate, sys::MakePipe());
  ATOLL_TRY(sys::WriteAll(gate.write.get(),
                          std::string(reinterpret_cast<const char*>(&pass), sizeof pass) + "+"));
  const bool shared_network = parts.message->spec.shared_network;
  const int shared =
      CLONE_NEWNS | CLONE_NEWPID | (shared_network ? static_cast<int>(CLONE_NEWNET) : 0);
  // Uses the pidfd, because the pid may belong to another process by now.
  if (::setns(sandbox, shared) != 0) return FailSys("setns into the sandbox");
  const uint64_t fresh = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                         (shared_network ? 0 : CLONE_NEWNET);
  Inside inside{.flags = fresh, .start = {.parts = &parts, .gate = gate.read.get(), .pass = pass}};
  // Only a process in the namespace above can make a pid namespace, and setns(2) leads only
  // children into one. So RunInside is a child of our parent, which reaps it at once. The session's
  // first process is left to the sandbox's process 1. A parent outside of a pid namespace keeps
  // that namespace from ending until it has waited. A dead spawner leaves its children to the
  // host's process 1, which in a container may wait for nobody.
  ATOLL_TRY(Vfork(CLONE_PARENT, -1, RunInside, &inside));
  // The child was killed with its sandbox. The other process dies a moment later, and uses our
  // memory until then.
  if (!inside.over) ::_exit(1);
  return std::move(inside.start.status);
}

}  // namespace atl::spawner
