#include "runtime/spawner/sessions/session_builder.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/kernel/mounts.h"
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

// Input of the session's first process; the descriptors stay the builder's.
struct Parts {
  const Host* host = nullptr;
  const wire::MakeSession* message = nullptr;
  uid_t base = 0;
  uid_t execd = 0;  // execd's user as the host sees it
  uint64_t nofile = 0;
  uint64_t pass = 0;
  UniqueFd leaf, commands, cgroup_namespace, user_namespace, store, gate;
  std::vector<UniqueFd> tasks, command_tasks, accounts;
};

struct SessionState {
  const Parts& parts;
  UniqueFd sysctls;
  UniqueFd score;
};

std::vector<int> Borrow(const std::vector<UniqueFd>& owned) {
  std::vector<int> fds;
  for (const UniqueFd& fd : owned) fds.push_back(fd.get());
  return fds;
}

// Returns the sandbox's limit of open files if one was asked for: then soft and hard are equal.
// prlimit(2) would need CAP_SYS_RESOURCE.
Result<uint64_t> FilesOf(const std::string& proc) {
  ATOLL_ASSIGN(const std::string limits, sys::ReadFileAt(AT_FDCWD, proc + "/limits", 8192));
  constexpr std::string_view kName = "Max open files";
  std::string_view rest = limits;
  rest.remove_prefix(std::min(rest.find(kName), rest.size()));
  uint64_t soft = 0, hard = 0;
  for (uint64_t* limit : {&soft, &hard}) {
    rest.remove_prefix(std::min(rest.find_first_of("0123456789"), rest.size()));
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *limit);
    if (error != std::errc())
      return Fail(Code::kInternal, "no limit of files in " + proc + "/limits");
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  return soft == hard ? hard : 0;
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

// Takes the sandbox's user namespace, or makes one beside it; neither has rights over the other.
Status TakeUserNamespace(const std::string& proc, Parts* parts) {
  if (!parts->message->mapped) {
    parts->execd = parts->base;
    ATOLL_ASSIGN(parts->user_namespace, sys::Open(proc + "/ns/user", O_RDONLY));
    return {};
  }
  const wire::SessionUser& user = parts->message->user;
  ATOLL_ASSIGN(const UserMap uids, MapUser(parts->base, user.uid, user.sandbox_uid));
  ATOLL_ASSIGN(const UserMap gids, MapUser(parts->base, user.gid, user.sandbox_gid));
  parts->execd = uids.root;
  ATOLL_ASSIGN(parts->user_namespace, MakeUserNamespace(parts->base, uids.lines, gids.lines));
  return {};
}

Status MakeGroup(const Host& host, uint32_t slot, Parts* parts) {
  const std::string sandbox = SlotGroup(slot);
  const std::string group = SessionGroup(slot, parts->message->spec.number);
  const wire::SessionTerms& terms = parts->message->terms;
  cgroup::Limits limits;
  limits.memory_bytes = terms.memory_bytes;
  limits.pids = terms.pids;
  limits.cpu_millis = terms.cpu_millis;
  ATOLL_TRY(CheckKept(host, limits));
  ATOLL_TRY(host.cgroups.CreateNested(group, limits));
  ATOLL_ASSIGN(const UniqueFd directory, host.cgroups.OpenDir(group, ""));
  ATOLL_ASSIGN(const std::vector<UniqueFd> tasks, host.cgroups.OpenTasks(sandbox));
  ATOLL_ASSIGN(parts->cgroup_namespace, MakeCgroupNamespace(directory.get(), tasks));
  ATOLL_TRY(host.cgroups.DelegateGroup(group, parts->execd));
  ATOLL_TRY(host.cgroups.SetLimits(group, {}, limits));
  ATOLL_TRY(host.cgroups.ShowLimits(group));
  ATOLL_ASSIGN(parts->tasks, host.cgroups.OpenTasks(group));
  ATOLL_ASSIGN(parts->command_tasks, host.cgroups.OpenRunTasks(group));
  ATOLL_ASSIGN(parts->accounts, host.cgroups.OpenAccounts(group));
  ATOLL_ASSIGN(parts->leaf, host.cgroups.OpenDir(group, "execd"));
  ATOLL_ASSIGN(parts->commands, host.cgroups.OpenDir(group, "run"));
  return {};
}

Status MakeUppers(const Host& host, uint32_t slot, Parts* parts) {
  const wire::SessionSpec& spec = parts->message->spec;
  const auto overlays = static_cast<size_t>(std::count_if(
      spec.mounts.begin(), spec.mounts.end(),
      [](const auto& mount) { return mount.kind >= wire::SessionMount::Kind::kOverlay; }));
  if (overlays == 0) return {};
  ATOLL_TRY(host.store.CreateSessionUppers(slot, spec.number, overlays));
  ATOLL_ASSIGN(const UniqueFd id_map, MakeUserNamespace({kStoreIdBase, parts->base}));
  const std::string path = host.store.path() + "/" + Store::SessionPath(slot, spec.number);
  ATOLL_ASSIGN(parts->store, CloneMount(AT_FDCWD, path.c_str(), false));
  return SetMountAttributes(parts->store.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, id_map.get(),
                            false, MS_PRIVATE);
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
  ATOLL_ASSIGN(SessionFurniture furniture,
               FurnishSession({.spec = &message.spec,
                               .base = state.parts.base,
                               .store = state.parts.store.get(),
                               .cgroup_v2 = state.parts.host->cgroups.host().v2}));
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
  return LoadFilter(WithPass(state.parts.host->session_filter, state.parts.pass));
}

Status EnterUser(SessionState& state) {
  const uint64_t capabilities =
      state.parts.host->config.capabilities & ~(uint64_t{1} << CAP_SYS_CHROOT);
  // The sandbox's own is sealed already.
  const int sysctls = state.parts.message->mapped ? state.sysctls.get() : -1;
  ATOLL_ASSIGN(state.score, EnterUserNamespace(state.parts.user_namespace.get(), state.parts.pass,
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
  const Parts* parts;
  Status status = Fail(Code::kInternal, "the session's first process died");
};

Result<int> RunSessionSteps(const Parts& parts) {
  SessionState state{.parts = parts, .sysctls = {}, .score = {}};
  for (const SessionStep& step : kSessionSteps) {
    Status done = step.run(state);
    if (!done) return Fail(std::move(done).error().Wrap(std::string("session step ") + step.name));
  }
  return PlaceDescriptors(*parts.host, {.gate = parts.gate.get(),
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
    const Result<int> placed = RunSessionSteps(*start->parts);
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

std::string SessionGroup(uint32_t slot, uint32_t number) {
  return SlotGroup(slot) + "/run/x" + std::to_string(number);
}

Status BuildSession(const Host& host, uint32_t slot, int sandbox, pid_t pid,
                    const wire::MakeSession& message) {
  Parts parts;
  parts.host = &host;
  parts.message = &message;
  parts.base = host.IdBase(slot);
  const std::string proc = "/proc/" + std::to_string(pid);
  ATOLL_TRY(host.cgroups.EnterShared());
  ATOLL_TRY(LimitUsers());
  ATOLL_TRY(TakeUserNamespace(proc, &parts));
  ATOLL_TRY(MakeGroup(host, slot, &parts));
  ATOLL_TRY(MakeUppers(host, slot, &parts));
  if (::getrandom(&parts.pass, sizeof parts.pass, 0) != sizeof parts.pass) {
    return FailSys("getrandom");
  }
  // The process already stands in its root, so the gate is open.
  ATOLL_ASSIGN(sys::Pipe gate, sys::MakePipe());
  ATOLL_TRY(sys::WriteAll(
      gate.write.get(),
      std::string(reinterpret_cast<const char*>(&parts.pass), sizeof parts.pass) + "+"));
  parts.gate = std::move(gate.read);
  ATOLL_ASSIGN(parts.nofile, FilesOf(proc));
  const int shared = CLONE_NEWNS | CLONE_NEWPID |
                     (message.spec.shared_network ? static_cast<int>(CLONE_NEWNET) : 0);
  // Uses the pidfd, because the pid may belong to another process by now.
  if (::setns(sandbox, shared) != 0) return FailSys("setns into the sandbox");
  const uint64_t fresh = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                         (message.spec.shared_network ? 0 : CLONE_NEWNET);
  Inside inside{.flags = fresh, .start = {.parts = &parts}};
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
