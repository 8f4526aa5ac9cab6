#include "runtime/spawner/slot_builder.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/namespaces.h"
#include "runtime/spawner/slot_child.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
namespace {

using wire::Step;

constexpr size_t kMaxMessage = 8192;
constexpr size_t kFdCount = 2;  // of a request, and of an answer

// The namespaces that are made beforehand, because the child cannot make them for itself: the
// limits of a cgroup namespace are those of the group it was made in, and a process that has its
// own user namespace has no rights left.
struct Made {
  UniqueFd cgroup;
  UniqueFd user;
  UniqueFd id_map;
  std::vector<UniqueFd> tasks;
};

// What a sandbox may hold at most of what the kernel counts by user: a user namespace takes its
// creator's limits for all users in it together, and its processes inherit them. Queued signals are
// POSIX timers too. The memory of all three is charged to the sandbox besides. For the last two it
// is what the kernel itself begins with.
Status LimitUsers() {
  constexpr struct {
    __rlimit_resource resource;
    rlim_t limit;
  } kLimits[] = {{RLIMIT_SIGPENDING, 16384}, {RLIMIT_MSGQUEUE, 819200}, {RLIMIT_MEMLOCK, 8 << 20}};
  for (const auto& [resource, limit] : kLimits) {
    const rlimit both{limit, limit};
    if (::setrlimit(resource, &both) != 0) {
      return FailSys("setrlimit " + std::to_string(resource));
    }
  }
  return {};
}

class Build {
 public:
  Build(const Host& host, uint32_t number, const sys::SocketPair& network, BuiltSlot* built)
      : host_(host), number_(number), group_(SlotGroup(number)), network_(network), built_(*built) {
    built_.number = number;
  }

  Status Run(const cgroup::Limits& limits, int control, int listener) {
    ATOLL_TRY(Timed(Step::kCgroup, [&] { return MakeGroup(limits); }));
    ATOLL_TRY(Timed(Step::kUpper, [&] {
      return host_.store.CreateUpper(host_.instance, number_, limits.disk_bytes);
    }));
    ATOLL_TRY(Timed(Step::kIds, [&] { return MakeUserNamespaces(); }));
    return StartExecd(limits.shm_bytes, control, listener);
  }

 private:
  template <typename Work>
  Status Timed(Step step, Work work) {
    built_.reply.step = step;
    const int64_t began = SystemClock().BootMicros();
    Status done = work();
    built_.reply.micros[static_cast<size_t>(step)] =
        static_cast<uint32_t>(SystemClock().BootMicros() - began);
    return done;
  }

  Status MakeGroup(const cgroup::Limits& limits) {
    ATOLL_TRY(host_.cgroups.CreateGroup(group_));
    ATOLL_ASSIGN(const UniqueFd directory, host_.cgroups.OpenDir(group_, ""));
    ATOLL_ASSIGN(made_.tasks, host_.cgroups.OpenTasks(group_));
    ATOLL_ASSIGN(made_.cgroup, MakeCgroupNamespace(directory.get(), made_.tasks));
    ATOLL_TRY(host_.cgroups.DelegateGroup(group_, host_.IdBase(number_)));
    return host_.cgroups.SetLimits(group_, {}, limits);
  }

  Status MakeUserNamespaces() {
    const uid_t base = host_.IdBase(number_);
    ATOLL_ASSIGN(made_.user, MakeUserNamespace({0, base}));
    ATOLL_ASSIGN(made_.id_map, MakeUserNamespace({kStoreIdBase, base}));
    return {};
  }

  Status StartExecd(uint64_t shm_bytes, int control, int listener) {
    built_.reply.step = Step::kClone;
    ATOLL_ASSIGN(sys::Pipe gate, sys::MakePipe());
    uint64_t pass = 0;
    static_assert(sizeof pass == wire::kPassSize);
    if (::getrandom(&pass, sizeof pass, 0) != sizeof pass) return FailSys("getrandom");
    ATOLL_TRY(sys::WriteAll(gate.write.get(), {reinterpret_cast<const char*>(&pass), sizeof pass}));
    ATOLL_ASSIGN(const UniqueFd leaf, host_.cgroups.OpenDir(group_, "execd"));
    ATOLL_ASSIGN(const UniqueFd commands, host_.cgroups.OpenDir(group_, "run"));
    ATOLL_ASSIGN(const std::vector<UniqueFd> command_tasks, host_.cgroups.OpenRunTasks(group_));
    ATOLL_ASSIGN(const std::vector<UniqueFd> accounts, host_.cgroups.OpenAccounts(group_));
    SlotChildInput input;
    input.host = &host_;
    input.shm_bytes = shm_bytes;
    input.base = host_.IdBase(number_);
    input.pass = pass;
    input.group = leaf.get();
    input.cgroup_namespace = made_.cgroup.get();
    input.user_namespace = made_.user.get();
    input.id_map = made_.id_map.get();
    input.gate = gate.read.get();
    input.control = control;
    input.listener = listener;
    input.commands = commands.get();
    input.views = host_.cgroups.Views(group_);
    input.network = network_.a.get();
    for (const UniqueFd& fd : made_.tasks) input.tasks.push_back(fd.get());
    for (const UniqueFd& fd : command_tasks) input.command_tasks.push_back(fd.get());
    for (const UniqueFd& fd : accounts) input.accounts.push_back(fd.get());
    SlotChildReport report;
    ATOLL_ASSIGN(const pid_t pid, StartSlotChild(input, &report));
    built_.reply.pid = static_cast<uint32_t>(pid);
    built_.reply.step = report.step;
    for (size_t i = 0; i < report.micros.size(); ++i) built_.reply.micros[i] += report.micros[i];
    built_.reply.micros[static_cast<size_t>(Step::kExec)] =
        static_cast<uint32_t>(SystemClock().BootMicros() - report.done_at_us);
    ATOLL_TRY(TakeNetwork());
    ATOLL_TRY(std::move(report.status));
    if (!built_.rtnetlink) return Fail(Code::kInternal, "no socket for the links");
    built_.gate = std::move(gate.write);
    return {};
  }

  // What the child has sent, also one that died later: the next slot's must not be taken for it.
  // It has executed execd or is dead, so what is not here by now will never come.
  Status TakeNetwork() {
    pollfd sent{network_.b.get(), POLLIN, 0};
    if (TEMP_FAILURE_RETRY(::poll(&sent, 1, 0)) <= 0) return {};
    ATOLL_ASSIGN(sys::Message message, sys::ReceiveMessage(network_.b.get(), 1));
    if (message.fds.size() == 1) built_.rtnetlink = std::move(message.fds[0]);
    return {};
  }

  const Host& host_;
  const uint32_t number_;
  const std::string group_;
  const sys::SocketPair& network_;
  BuiltSlot& built_;
  Made made_;
};

Status Answer(int channel, BuiltSlot& built, const Status& status) {
  wire::Reply& reply = built.reply;
  reply.number = built.number;
  if (!status) {
    reply.ok = false;
    reply.code = status.error().code();
    reply.error_number = status.error().error_number();
    reply.message = status.error().message().substr(0, kMaxMessage / 2);
    return sys::SendMessage(channel, reply.Encode());
  }
  reply.step = Step::kCount;
  const int fds[kFdCount] = {built.gate.get(), built.rtnetlink.get()};
  return sys::SendMessage(channel, reply.Encode(), fds);
}

[[noreturn]] void Serve(const Host& host, int channel) {
  ::prctl(PR_SET_NAME, "atoll-slots");
  // Slots belong to the spawner that asked for them.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const Status entered = host.cgroups.EnterShared(); !entered) {
    LogLine(LogLevel::kError, "slots cannot be built").Add(entered.error());
    ::_exit(1);
  }
  const auto network = sys::UnixPair(SOCK_SEQPACKET);
  if (!network || !LimitUsers()) ::_exit(1);
  for (;;) {
    const auto message = sys::ReceiveMessage(channel, kMaxMessage);
    if (!message || message->bytes.empty()) ::_exit(0);
    const auto request = wire::DecodeRequest(message->bytes);
    if (!request || message->fds.size() != kFdCount) ::_exit(1);
    BuiltSlot built;
    const Status status = Build(host, request->slot, *network, &built)
                              .Run(request->limits, message->fds[0].get(), message->fds[1].get());
    if (!Answer(channel, built, status)) ::_exit(1);
  }
}

}  // namespace

Result<SlotBuilder> SlotBuilder::Start(const Host& host, const std::function<void()>& in_child) {
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_SEQPACKET));
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork slot builder");
  if (pid == 0) {
    pair.a.reset();
    in_child();
    Serve(host, pair.b.get());
  }
  return SlotBuilder(pid, std::move(pair.a));
}

Status SlotBuilder::Ask(uint32_t slot, const cgroup::Limits& limits, int control,
                        int listener) const {
  wire::Request request;
  request.type = wire::RequestType::kPrepareSlot;
  request.slot = slot;
  request.limits = limits;
  const int fds[kFdCount] = {control, listener};
  return sys::SendMessage(channel_.get(), request.Encode(), fds);
}

Result<BuiltSlot> SlotBuilder::Receive() const {
  ATOLL_ASSIGN(sys::Message message, sys::ReceiveMessage(channel_.get(), kMaxMessage));
  if (message.bytes.empty()) return Fail(Code::kInternal, "the builder of slots died");
  BuiltSlot built;
  ATOLL_ASSIGN(built.reply, wire::DecodeReply(message.bytes));
  built.number = static_cast<uint32_t>(built.reply.number);
  if (!built.reply.ok) return built;
  if (message.fds.size() != kFdCount) return Fail(Code::kInternal, "slot: descriptors are missing");
  built.gate = std::move(message.fds[0]);
  built.rtnetlink = std::move(message.fds[1]);
  return built;
}

}  // namespace atl::spawner
