#include "runtime/spawner/slot/slot_builder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/host/limit_policy.h"
#include "runtime/spawner/kernel/namespaces.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/spawner/slot/execd_process.h"
#include "runtime/spawner/slot/slot_child.h"
#include "runtime/wire/start.h"

namespace atl::spawner {
namespace {

using wire::Step;

constexpr size_t kMaxMessage = 8192;

// Namespaces that are made beforehand, because the child cannot make them for itself. The root of a
// cgroup namespace is the group that it was made in, and a process in its own user namespace has no
// rights left.
struct Made {
  UniqueFd cgroup;
  UniqueFd user;
  UniqueFd id_map;
  std::vector<UniqueFd> tasks;
};

class Build {
 public:
  Build(const Host& host, const Tier& tier, const wire::PrepareSlot& asked,
        const sys::SocketPair& network)
      : host_(host),
        tier_(tier),
        asked_(asked),
        number_(asked.slot),
        group_(SlotGroup(asked.slot)),
        network_(network) {}

  BuiltSlot Run() {
    const Status made = Make();
    BuiltSlot built{.slot = number_, .pid = pid_, .outcome = std::move(parts_)};
    if (!made) {
      built.outcome = wire::Failed::Of(wire::FailedAt(
          step_, Error(made.error().code(), made.error().message().substr(0, kMaxMessage / 2),
                       made.error().error_number())));
    }
    return built;
  }

 private:
  Status Make() {
    const cgroup::Limits& limits = asked_.limits;
    ATOLL_TRY(Timed(Step::kCgroup, [&] { return MakeGroup(limits); }));
    ATOLL_TRY(Timed(Step::kUpper, [&] {
      return host_.store.CreateUpper(host_.instance, number_, limits.disk_bytes);
    }));
    ATOLL_TRY(Timed(Step::kIds, [&] { return MakeUserNamespaces(); }));
    return StartExecd();
  }
  template <typename Work>
  Status Timed(Step step, Work work) {
    step_ = step;
    const int64_t began = SystemClock().BootMicros();
    Status done = work();
    parts_.prepared.micros[static_cast<size_t>(step)] =
        static_cast<uint32_t>(SystemClock().BootMicros() - began);
    return done;
  }

  Status MakeGroup(const cgroup::Limits& limits) {
    ATOLL_TRY(host_.cgroups.CreateGroup(group_));
    ATOLL_ASSIGN(const UniqueFd directory, host_.cgroups.OpenDir(group_, ""));
    ATOLL_ASSIGN(made_.tasks, host_.cgroups.OpenTasks(group_));
    ATOLL_ASSIGN(made_.cgroup, MakeCgroupNamespace(directory.get(), made_.tasks));
    ATOLL_TRY(host_.cgroups.DelegateGroup(group_, host_.IdBase(number_)));
    return host_.cgroups.SetLimits(group_, {}, WithOverhead(tier_.name(), limits));
  }

  Status MakeUserNamespaces() {
    const uid_t base = host_.IdBase(number_);
    ATOLL_ASSIGN(made_.user, MakeUserNamespace({0, base}));
    ATOLL_ASSIGN(made_.id_map, MakeUserNamespace({kStoreIdBase, base}));
    return {};
  }

  Status StartExecd() {
    step_ = Step::kClone;
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
    input.slot = number_;
    input.limits = asked_.limits;
    input.ahead = asked_.ahead;
    input.base = host_.IdBase(number_);
    input.pass = pass;
    input.group = leaf.get();
    input.cgroup_namespace = made_.cgroup.get();
    input.user_namespace = made_.user.get();
    input.id_map = made_.id_map.get();
    input.gate = gate.read.get();
    input.control = asked_.control.get();
    input.listener = asked_.listener.get();
    input.commands = commands.get();
    input.views = host_.cgroups.Views(group_);
    input.network = network_.a.get();
    for (const UniqueFd& fd : made_.tasks) input.tasks.push_back(fd.get());
    for (const UniqueFd& fd : command_tasks) input.command_tasks.push_back(fd.get());
    for (const UniqueFd& fd : accounts) input.accounts.push_back(fd.get());
    SlotChildReport report;
    ATOLL_ASSIGN(const pid_t pid, tier_.Prepare(input, &report));
    pid_ = static_cast<uint32_t>(pid);
    step_ = report.step;
    wire::StepMicros& micros = parts_.prepared.micros;
    for (size_t i = 0; i < report.micros.size(); ++i) micros[i] += report.micros[i];
    micros[static_cast<size_t>(Step::kExec)] =
        static_cast<uint32_t>(SystemClock().BootMicros() - report.done_at_us);
    ATOLL_TRY(TakeNetwork());
    ATOLL_TRY(std::move(report.status));
    if (!parts_.prepared.rtnetlink) return Fail(Code::kInternal, "no socket for the links");
    parts_.gate = std::move(gate.write);
    return {};
  }

  // Takes what the child has sent, also if it died later, because the next slot must not get it.
  // The child has executed execd or is dead, so nothing more will come.
  Status TakeNetwork() {
    pollfd sent{network_.b.get(), POLLIN, 0};
    if (TEMP_FAILURE_RETRY(::poll(&sent, 1, 0)) <= 0) return {};
    ATOLL_ASSIGN(sys::Message message, sys::ReceiveMessage(network_.b.get(), 1));
    if (message.fds.size() == 1) parts_.prepared.rtnetlink = std::move(message.fds[0]);
    return {};
  }

  const Host& host_;
  const Tier& tier_;
  const wire::PrepareSlot& asked_;
  const uint32_t number_;
  const std::string group_;
  const sys::SocketPair& network_;
  Made made_;
  Step step_ = Step::kCgroup;  // the present step
  uint32_t pid_ = 0;
  BuiltSlot::Parts parts_;
};

[[noreturn]] void Serve(const Host& host, const Tiers& tiers, int channel) {
  if (const Status entered = host.cgroups.EnterShared(); !entered) {
    LogLine(LogLevel::kError, "slots cannot be built").Add(entered.error());
    ::_exit(1);
  }
  const auto network = sys::UnixPair(SOCK_SEQPACKET);
  if (!network || !LimitUsers()) ::_exit(1);
  for (;;) {
    auto message = sys::ReceiveMessage(channel, kMaxMessage);
    if (!message || message->bytes.empty()) ::_exit(0);
    wire::PrepareSlot asked;
    if (!wire::DecodeFields(message->bytes, &asked, message->fds)) ::_exit(1);
    const auto tier = tiers.Able(asked.tier, Verb::kPrepare);
    if (!tier) ::_exit(1);  // the spawner has looked before it asked
    const BuiltSlot built = Build(host, **tier, asked, *network).Run();
    const wire::Packet packet = wire::EncodePacket(built);
    if (!sys::SendMessage(channel, packet.bytes, packet.descriptors)) ::_exit(1);
  }
}

}  // namespace

Result<SlotBuilder> SlotBuilder::Start(const Host& host, const Tiers& tiers) {
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_SEQPACKET));
  std::vector<int> keep = host.Descriptors();
  keep.push_back(pair.b.get());
  // The builder ends with the spawner, because slots belong to the spawner that asked for them.
  ATOLL_ASSIGN(const pid_t pid, StartWorker({.name = "atoll-slots"}, keep,
                                            [&] { Serve(host, tiers, pair.b.get()); }));
  ::fcntl(pair.a.get(), F_SETFL, O_NONBLOCK);
  return SlotBuilder(pid, std::move(pair.a));
}

Status SlotBuilder::Ask(const wire::PrepareSlot& message) const {
  const wire::Packet packet = wire::EncodePacket(message);
  return sys::SendMessage(channel_.get(), packet.bytes, packet.descriptors);
}

Result<BuiltSlot> SlotBuilder::Receive() const {
  ATOLL_ASSIGN(sys::Message message, sys::ReceiveMessage(channel_.get(), kMaxMessage));
  if (message.bytes.empty()) return Fail(Code::kInternal, "the builder of slots died");
  BuiltSlot built;
  if (!wire::DecodeFields(message.bytes, &built, message.fds)) {
    return Fail(Code::kInternal, "the builder of slots sent a malformed answer");
  }
  return built;
}

}  // namespace atl::spawner
