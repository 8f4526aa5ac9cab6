#include "netpolicy/network.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "netpolicy/address/addresses.h"
#include "netpolicy/dns/dns_forwarder.h"
#include "netpolicy/link/forwarding.h"
#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/rules/conntrack.h"
#include "netpolicy/rules/enforcer.h"
#include "netpolicy/rules/fence.h"
#include "netpolicy/rules/packet_log.h"
#include "netpolicy/rules/policy_sets.h"
#include "netpolicy/rules/proxy_judge.h"
#include "netpolicy/rules/ruleset.h"
#include "netpolicy/splice/splice_proxy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

constexpr uint32_t kDefaultMtu = 1500;
constexpr uint32_t kMostConnections = 1'000'000;
// Port of the proxy on the gateway's addresses, where no other program listens.
constexpr uint16_t kProxyPort = 15001;

// Group of nfnetlink_log. Other programs use small numbers.
uint16_t LogGroup(uint32_t instance) {
  return static_cast<uint16_t>(16750 + instance);
}

// Interval of sweeps. A walk through the connection table takes a pool thread 15 ms, so sweeps use
// at most 1.5 % of one CPU.
constexpr int64_t kSweepIntervalUs = 1'000'000;
// Longest wait for a link's carrier. The daemon does nothing else meanwhile.
constexpr int64_t kCarrierLimitUs = 6'000'000;
constexpr uint32_t kSmallestMtu = 1280;  // the smallest MTU of IPv6, RFC 8200 section 5

Status CheckSlot(uint32_t slot) {
  if (slot >= 1 && slot <= kMaxSlot) return {};
  return Fail(Code::kInvalidArgument,
              "network slot " + std::to_string(slot) + ": not 1 to " + std::to_string(kMaxSlot));
}

// Returns true for errors that mean that a thing to be removed is already gone.
bool IsAbsent(const Error& error) {
  const int number = error.error_number();
  return number == ENOENT || number == ENODEV || number == EADDRNOTAVAIL || number == ESRCH;
}

using FlowJudge = std::function<bool(const Flow&)>;

void AddAttachedElements(NftTransaction& transaction, uint32_t instance, uint32_t slot) {
  AddSlotElements(transaction, instance, slot);
  AddDeniedElement(transaction, instance, slot);
}

class HostNetwork final : public Network {
 public:
  static Result<std::unique_ptr<Network>> Make(const NetworkConfig& config);

  ~HostNetwork() override;
  Status Start(Loop& loop, Health& health) override;
  Status AttachSlot(uint32_t slot, int rtnetlink) override;
  Status DetachSlot(uint32_t slot) override;
  bool SlotLinkGone(uint32_t slot) override;
  Status ClaimSlot(uint32_t slot, const SlotRequest& request) override;
  Status CheckRequest(const SlotRequest& request) const override;
  void SetCeilings(CeilingOf ceilings) override { enforcer_->SetCeilings(std::move(ceilings)); }
  Result<std::shared_ptr<const Egress>> MakeReady(SharedPolicy policy,
                                                  const std::string& tenant) const override;
  Status SetPolicy(uint32_t slot, std::shared_ptr<const Egress> egress) override;
  void SetInterceptor(uint32_t slot, std::shared_ptr<Interceptor> interceptor) override {
    proxy_->SetInterceptor(SourceOfSlot(slot), std::move(interceptor));
  }
  SharedPolicy PolicyOf(uint32_t slot) const override;
  std::vector<LearnedName> LearnedBy(uint32_t slot) const override;
  std::vector<Denial> DenialsOf(uint32_t slot) const override;
  Result<SlotCounters> CountersOf(uint32_t slot) override;
  uint64_t repairs() const override { return fence_->repairs(); }
  const DnsCounts& dns_counts() const override { return dns_->counts(); }
  void OnDenied(OnDenial on_denial) override { enforcer_->OnDenied(std::move(on_denial)); }
  Status RemoveLinks(const std::vector<uint32_t>& slots) override;
  Status Recover(const std::vector<LiveSlot>& live) override;
  int rules_socket() const override { return netfilter_.get(); }
  Status RemoveAll() override;

 private:
  HostNetwork() = default;
  Status OpenSockets();
  Status ChooseMtu(uint32_t configured);
  Status CreateLink(const SlotLink& link, int rtnetlink);
  Status SetElements(uint32_t slot, void (*change)(NftTransaction&, uint32_t, uint32_t));
  Status CutFlowsNow();
  void CutFlowsLater();
  Status JudgeFlows(uint32_t slot);
  void JudgeAllFlows();
  void SweepNow();
  std::string SourceOfSlot(uint32_t slot) const;
  void SweepFlows();

  uint32_t instance_ = 0;
  uint32_t mtu_ = kDefaultMtu;
  bool ipv6_ = false;
  // Sockets that are opened while privileged and kept; see OpenNetlink. Because they stay open, no
  // call pays the 12 ms that closing an nfnetlink socket takes while deletions are pending.
  UniqueFd route_;
  UniqueFd netfilter_;
  UniqueFd host_netns_;
  UniqueFd interfaces_;  // any socket; SIOCGIFINDEX needs one
  std::unique_ptr<Fence> fence_;
  std::unique_ptr<Enforcer> enforcer_;
  std::unique_ptr<DnsForwarder> dns_;
  std::unique_ptr<ProxyJudge> judge_;
  std::unique_ptr<SpliceProxy> proxy_;
  std::unique_ptr<PacketLog> packet_log_;

  // The judge of one slot's flows in a sweep, which runs on a pool thread.
  struct Judged {
    explicit Judged(FlowJudge by) : judge(std::move(by)) {}
    const FlowJudge judge;
    // Set when the slot gets another policy during the sweep. A flow that began under the new
    // policy must not be cut by the former one. The next sweep has the new judge.
    std::atomic<bool> outdated{false};
  };
  struct Sweep {
    std::set<uint32_t> slots;
    std::map<uint32_t, Judged> judges;  // no element is added or removed while the sweep runs
    bool done = false;
  };

  // rtnetlink sockets of the network namespaces of links that are not claimed yet.
  std::map<uint32_t, UniqueFd> unclaimed_;
  // Detached slots whose flows may still exist.
  std::set<uint32_t> uncut_;
  // Judges of the slots whose policy changed since the last sweep.
  std::map<uint32_t, FlowJudge> unjudged_;
  Loop* loop_ = nullptr;
  Loop::Id sweep_timer_ = 0;
  std::shared_ptr<Sweep> sweep_;  // the sweep in flight; null: none
  // Socket of the pool thread. Shared with its work, which may outlive this object.
  std::shared_ptr<UniqueFd> sweep_socket_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

Result<std::unique_ptr<Network>> HostNetwork::Make(const NetworkConfig& config) {
  if (config.instance > kMaxInstance) {
    return Fail(Code::kInvalidArgument, "network instance " + std::to_string(config.instance) +
                                            ": not 0 to " + std::to_string(kMaxInstance));
  }
  if (config.mtu != 0 && (config.mtu < kSmallestMtu || config.mtu > 65535)) {
    return Fail(Code::kInvalidArgument,
                "network mtu " + std::to_string(config.mtu) + ": not 1280 to 65535");
  }
  std::unique_ptr<HostNetwork> network(new HostNetwork());
  network->instance_ = config.instance;
  network->ipv6_ = Ipv6Available();
  if (config.max_connections < 1 || config.max_connections > kMostConnections) {
    return Fail(Code::kInvalidArgument, "network max_connections " +
                                            std::to_string(config.max_connections) + ": not 1 to " +
                                            std::to_string(kMostConnections));
  }
  ATOLL_TRY(network->OpenSockets());
  // If a link exists, a sandbox exists, and it is protected by what an earlier daemon installed.
  // Then everything stays.
  auto undo = Cleanup([&network] {
    const auto slots = ListSlotLinks(network->route_.get(), network->instance_);
    if (!slots || !slots->empty()) return;
    if (const Status removed = network->RemoveAll(); !removed) {
      LogLine(LogLevel::kWarning,
              "cannot remove the network rules after a failed start; they stay installed")
          .Add(removed.error());
    }
  });
  Enforcer::Config enforcer{config.instance, config.private_networks, config.rules,
                            config.deny_unless_asked};
  enforcer.guarded.insert(enforcer.guarded.end(), MetadataServices().begin(),
                          MetadataServices().end());
  enforcer.guarded = WithNat64(std::move(enforcer.guarded));
  network->fence_ =
      std::make_unique<Fence>(RulesetConfig{.instance = config.instance,
                                            .guarded = enforcer.guarded,
                                            .proxy_port = kProxyPort,
                                            .log_group = LogGroup(config.instance),
                                            .max_connections = config.max_connections},
                              network->ipv6_, network->route_.get(), network->netfilter_.get());
  ATOLL_TRY(network->fence_->Install());
  ATOLL_TRY(network->ChooseMtu(config.mtu));
  network->enforcer_ =
      std::make_unique<Enforcer>(std::move(enforcer), network->netfilter_.get(), SystemClock());
  ATOLL_ASSIGN(network->packet_log_, PacketLog::Open(LogGroup(config.instance)));

  const SourceName source_of = [instance = config.instance](const Endpoint& from) {
    return SourceOf(instance, from.ip().span());
  };
  DnsForwarder::Config dns;
  dns.source_of = source_of;
  dns.upstreams = config.dns_upstreams;
  dns.listen.push_back(ToString(GatewayIpv4(config.instance)));
  if (network->ipv6_) dns.listen.push_back(ToString(GatewayIpv6(config.instance)));
  SpliceProxy::Config proxy;
  proxy.source_of = source_of;
  proxy.listen = dns.listen;
  proxy.port = kProxyPort;
  ATOLL_ASSIGN(network->dns_, DnsForwarder::Open(std::move(dns)));
  ATOLL_ASSIGN(network->proxy_, SpliceProxy::Open(std::move(proxy)));
  network->judge_ =
      std::make_unique<ProxyJudge>(*network->enforcer_, *network->dns_, config.allow_unnamed);
  undo.Release();
  return std::unique_ptr<Network>(std::move(network));
}

Status HostNetwork::OpenSockets() {
  ATOLL_ASSIGN(route_, OpenNetlink(NETLINK_ROUTE));
  ATOLL_ASSIGN(netfilter_, OpenNetlink(NETLINK_NETFILTER));
  ATOLL_ASSIGN(host_netns_, sys::Open("/proc/thread-self/ns/net", O_RDONLY));
  ATOLL_ASSIGN(UniqueFd sweep, OpenNetlink(NETLINK_NETFILTER));
  sweep_socket_ = std::make_shared<UniqueFd>(std::move(sweep));
  interfaces_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!interfaces_) return FailSys("socket AF_UNIX");
  return {};
}

Status HostNetwork::ChooseMtu(uint32_t configured) {
  mtu_ = configured;
  if (mtu_ == 0) {
    ATOLL_ASSIGN(const uint32_t upstream, DefaultRouteMtu(route_.get()));
    mtu_ = upstream == 0 ? kDefaultMtu : std::clamp(upstream, kSmallestMtu, kDefaultMtu);
  }
  return {};
}

Status HostNetwork::CreateLink(const SlotLink& link, int rtnetlink) {
  NetlinkBatch inside;
  AddInsideMessages(inside, link, host_netns_.get());
  ATOLL_TRY(Exchange(rtnetlink, inside));
  NetlinkBatch host;
  AddHostMessages(host, link);
  ATOLL_TRY(Exchange(route_.get(), host));
  Status able = AwaitCarrier(rtnetlink, kInsideIfindex, kInsideLink, kCarrierLimitUs);
  if (able || able.error().code() != Code::kUnavailable) return able;
  // The kernel's workers are late on a very busy host. The carrier comes later, and until then
  // packets from the sandbox are lost, as on a wire. That is better than a daemon that blocks.
  LogLine(LogLevel::kWarning,
          "a sandbox starts although its link cannot send yet; its first packets may be lost")
      .Add("slot", link.slot);
  return {};
}

Status HostNetwork::AttachSlot(uint32_t slot, int rtnetlink) {
  ATOLL_TRY(CheckSlot(slot));
  const SlotLink link{instance_, slot, mtu_, ipv6_};
  Status created = CreateLink(link, rtnetlink);
  if (!created && created.error().error_number() == EEXIST) {
    // A crash has left a link with this name. It is deleted only here, because a deletion takes the
    // 15 ms of its grace periods.
    NetlinkBatch stale;
    AddLinkDeletion(stale, LinkName(instance_, slot));
    const Status deleted = Exchange(route_.get(), stale);
    // The link may also have gone with its network namespace in the meantime.
    if (deleted || deleted.error().error_number() == ENODEV) created = CreateLink(link, rtnetlink);
  }
  if (created) created = SetElements(slot, AddAttachedElements);
  if (created) {
    UniqueFd inside(::fcntl(rtnetlink, F_DUPFD_CLOEXEC, 0));
    if (!inside) created = FailSys("fcntl F_DUPFD_CLOEXEC of the rtnetlink socket");
    if (inside) unclaimed_.insert_or_assign(slot, std::move(inside));
  }
  if (created) fence_->Attached(slot);
  if (!created) {
    return Fail(std::move(created).error().Wrap("attach network slot " + std::to_string(slot)));
  }
  return {};
}

Status HostNetwork::SetElements(uint32_t slot,
                                void (*change)(NftTransaction&, uint32_t, uint32_t)) {
  NftTransaction transaction(TableName(instance_));
  change(transaction, instance_, slot);
  return transaction.Commit(netfilter_.get());
}

HostNetwork::~HostNetwork() {
  *alive_ = false;
  if (loop_) loop_->Cancel(sweep_timer_);
}

Status HostNetwork::Start(Loop& loop, Health& health) {
  ATOLL_TRY(dns_->Start(loop, enforcer_.get()));
  ATOLL_TRY(proxy_->Start(loop, *judge_));
  packet_log_->Start(loop, [this](const LoggedPacket& packet) { enforcer_->OnPacket(packet); });
  loop_ = &loop;
  return fence_->Start(loop, health, *enforcer_, [this] { JudgeAllFlows(); });
}

Status HostNetwork::CutFlowsNow() {
  const auto judges = std::exchange(unjudged_, {});
  ATOLL_TRY(CutFlows(netfilter_.get(), instance_, [&](const Flow& flow) {
    const auto judge = judges.find(flow.slot);
    return uncut_.contains(flow.slot) || (judge != judges.end() && judge->second(flow));
  }));
  uncut_.clear();
  return {};
}

void HostNetwork::CutFlowsLater() {
  if ((uncut_.empty() && unjudged_.empty()) || sweep_ || sweep_timer_ != 0) return;
  sweep_timer_ = loop_->After(kSweepIntervalUs, [this] {
    sweep_timer_ = 0;
    SweepFlows();
  });
}

Status HostNetwork::JudgeFlows(uint32_t slot) {
  unjudged_[slot] = enforcer_->JudgeOfFlows(slot);
  if (!loop_) return CutFlowsNow();
  if (sweep_) {
    if (const auto old = sweep_->judges.find(slot); old != sweep_->judges.end()) {
      old->second.outdated = true;
    }
  }
  // The sweep starts after the answer is sent. It holds a CPU for milliseconds; if it began first,
  // it would take the CPU on which the reader of the answer is woken.
  loop_->Post([this, alive = alive_] {
    if (*alive) SweepNow();
  });
  return {};
}

// Judges the flows of all slots again: some may have begun while another program had changed the
// rules.
void HostNetwork::JudgeAllFlows() {
  for (const auto& [slot, rate] : fence_->slots()) unjudged_[slot] = enforcer_->JudgeOfFlows(slot);
  SweepNow();
}

void HostNetwork::SweepNow() {
  if (sweep_) return;  // the sweep in flight looks again when it is done
  loop_->Cancel(sweep_timer_);
  sweep_timer_ = 0;
  SweepFlows();
}

void HostNetwork::SweepFlows() {
  const auto sweep = sweep_ = std::make_shared<Sweep>();
  sweep->slots = uncut_;
  for (auto& [slot, judge] : std::exchange(unjudged_, {})) {
    sweep->judges.try_emplace(slot, std::move(judge));
  }
  loop_->RunBlocking(
      [sweep, socket = sweep_socket_, instance = instance_] {
        const auto cut = CutFlows(socket->get(), instance, [&](const Flow& flow) {
          if (sweep->slots.contains(flow.slot)) return true;
          const auto by = sweep->judges.find(flow.slot);
          return by != sweep->judges.end() && !by->second.outdated && by->second.judge(flow);
        });
        sweep->done = cut.has_value();
      },
      [this, alive = alive_, sweep] {
        if (!*alive) return;
        sweep_.reset();
        // If the sweep failed, it is repeated. Until one succeeds, the detached slots stay out of
        // use, and the flows of the other slots are judged again under their policy at that time.
        if (sweep->done) {
          for (const uint32_t slot : sweep->slots) uncut_.erase(slot);
        } else {
          for (const auto& [slot, judged] : sweep->judges) {
            unjudged_.try_emplace(slot, enforcer_->JudgeOfFlows(slot));
          }
        }
        if (sweep->done && !unjudged_.empty()) return SweepFlows();
        CutFlowsLater();
      });
}

// Returns the key under which the name server and the proxy know the slot.
std::string HostNetwork::SourceOfSlot(uint32_t slot) const {
  return SourceOf(instance_, SlotIpv4(instance_, slot));
}

Status HostNetwork::DetachSlot(uint32_t slot) {
  ATOLL_TRY(CheckSlot(slot));
  // The elements go first: without them no packet of the slot can create a new flow.
  Status removed = SetElements(slot, DeleteSlotElements);
  if (!removed && !IsAbsent(removed.error())) {
    return Fail(std::move(removed).error().Wrap("detach network slot " + std::to_string(slot)));
  }
  unclaimed_.erase(slot);
  fence_->Detached(slot);
  // This transaction is separate, because it fails if the element does not exist.
  (void)SetElements(slot, DeleteDeniedElement);
  // No packet of the slot passes any more. What its policy left in the kernel must be gone before
  // the next sandbox gets the slot.
  Status released = enforcer_->Release(slot);
  proxy_->Forget(SourceOfSlot(slot));
  dns_->Forget(SourceOfSlot(slot));
  unjudged_.erase(slot);
  uncut_.insert(slot);
  if (!loop_) return released ? CutFlowsNow() : released;
  CutFlowsLater();
  return released;
}

Status HostNetwork::ClaimSlot(uint32_t slot, const SlotRequest& request) {
  ATOLL_TRY(CheckSlot(slot));
  const auto inside = unclaimed_.extract(slot);
  if (fence_->IsLost(slot)) {
    return Fail(Code::kUnavailable, "network slot " + std::to_string(slot) +
                                        ": another program has deleted the link " +
                                        LinkName(instance_, slot));
  }
  if (request.bytes_per_second != 0) {
    if (inside.empty()) {
      return Fail(Code::kFailedPrecondition, "network slot " + std::to_string(slot) +
                                                 " was used before: its rate cannot be set");
    }
    ATOLL_TRY(LimitRate(inside.mapped().get(), kInsideIfindex, request.bytes_per_second));
    ATOLL_TRY(LimitRate(route_.get(), HostIfindex(instance_, slot), request.bytes_per_second));
  }
  ATOLL_TRY(enforcer_->Claim(slot, request));
  fence_->Claimed(slot, request.bytes_per_second);
  return {};
}

Status HostNetwork::CheckRequest(const SlotRequest& request) const {
  return enforcer_->Check(request);
}

Result<std::shared_ptr<const Egress>> HostNetwork::MakeReady(SharedPolicy policy,
                                                             const std::string& tenant) const {
  return enforcer_->MakeReady(std::move(policy), enforcer_->CeilingOf(tenant));
}

Status HostNetwork::SetPolicy(uint32_t slot, std::shared_ptr<const Egress> egress) {
  ATOLL_TRY(enforcer_->SetPolicy(slot, std::move(egress)));
  proxy_->Rejudge(SourceOfSlot(slot));
  return JudgeFlows(slot);
}

SharedPolicy HostNetwork::PolicyOf(uint32_t slot) const {
  return enforcer_->PolicyOf(slot);
}

std::vector<LearnedName> HostNetwork::LearnedBy(uint32_t slot) const {
  return enforcer_->LearnedBy(slot);
}

std::vector<Denial> HostNetwork::DenialsOf(uint32_t slot) const {
  const Denials* denials = enforcer_->DenialsOf(slot);
  if (denials == nullptr) return {};
  return {denials->recent().begin(), denials->recent().end()};
}

Result<SlotCounters> HostNetwork::CountersOf(uint32_t slot) {
  ATOLL_TRY(CheckSlot(slot));
  SlotCounters counters;
  ATOLL_ASSIGN(const LinkCounters link,
               ReadLinkCounters(route_.get(), HostIfindex(instance_, slot)));
  // The host's end receives what the sandbox sends.
  counters.bytes_in = link.tx_bytes;
  counters.bytes_out = link.rx_bytes;
  counters.packets_in = link.tx_packets;
  counters.packets_out = link.rx_packets;
  ATOLL_TRY(ListDenied(netfilter_.get(), instance_, [&](uint32_t number, uint64_t packets) {
    if (number == slot) counters.denied = packets;
  }));
  if (const Denials* denials = enforcer_->DenialsOf(slot)) counters.denied += denials->by_name();
  return counters;
}

bool HostNetwork::SlotLinkGone(uint32_t slot) {
  // Retries what an earlier Release could not remove: the next sandbox must not inherit it.
  if (uncut_.contains(slot) || !enforcer_->Release(slot)) return false;
  ifreq request{};
  const std::string name = LinkName(instance_, slot);
  std::copy(name.begin(), name.end(), request.ifr_name);
  return ::ioctl(interfaces_.get(), SIOCGIFINDEX, &request) != 0 && errno == ENODEV;
}

Status HostNetwork::RemoveLinks(const std::vector<uint32_t>& slots) {
  std::vector<std::string> names;
  for (const uint32_t slot : slots) names.push_back(LinkName(instance_, slot));
  return DeleteLinks(route_.get(), instance_, names);
}

Status HostNetwork::Recover(const std::vector<LiveSlot>& live) {
  std::map<uint32_t, uint64_t> slots;  // slot → its rate limit
  for (const LiveSlot& one : live) {
    ATOLL_TRY(CheckSlot(one.slot));
    slots[one.slot] = one.request.bytes_per_second;
  }
  // Links that were prepared are not used after a restart. Their sockets would keep the network
  // namespaces alive.
  unclaimed_.clear();
  ATOLL_ASSIGN(std::vector<uint32_t> dead, ListSlotLinks(route_.get(), instance_));
  std::erase_if(dead, [&](uint32_t slot) { return slots.contains(slot); });
  // Elements let a link's packets through, and policies hold them back. Slots without a policy
  // therefore lose their elements before their policy. If the table was flushed, live slots get
  // their policy before their elements.
  NftTransaction closed(TableName(instance_));
  for (const uint32_t slot : dead) {
    // added first, because deleting a missing element fails
    AddSlotElements(closed, instance_, slot);
    DeleteSlotElements(closed, instance_, slot);
  }
  if (!closed.empty()) ATOLL_TRY(closed.Commit(netfilter_.get()));
  ATOLL_TRY(enforcer_->Recover(live));
  // One transaction, so that live slots are never without their elements.
  NftTransaction transaction(TableName(instance_));
  transaction.FlushSet(kLinkSet4);
  transaction.FlushSet(kLinkSet6);
  for (const auto& [slot, rate] : slots) AddSlotElements(transaction, instance_, slot);
  ATOLL_TRY(transaction.Commit(netfilter_.get()));
  fence_->Recovered(slots);
  ATOLL_TRY(RemoveLinks(dead));
  // Includes slots whose link disappeared before this daemon started.
  for (uint32_t slot = 1; slot <= kMaxSlot; ++slot) {
    if (!slots.contains(slot)) uncut_.insert(slot);
  }
  for (const auto& [slot, rate] : slots) unjudged_[slot] = enforcer_->JudgeOfOldFlows(slot);
  return CutFlowsNow();
}

Status HostNetwork::RemoveAll() {
  unclaimed_.clear();
  fence_->Stop();
  // Links go before the rules, so that no link exists without rules.
  ATOLL_ASSIGN(const std::vector<uint32_t> slots, ListSlotLinks(route_.get(), instance_));
  ATOLL_TRY(RemoveLinks(slots));
  proxy_.reset();
  judge_.reset();
  dns_.reset();
  NftTransaction table(TableName(instance_));
  table.DeleteTable();
  if (Status deleted = table.Commit(netfilter_.get()); !deleted && !IsAbsent(deleted.error())) {
    return deleted;
  }
  for (const std::string& name : BarrierNames(instance_)) {
    NftTransaction barrier(name);
    barrier.DeleteTable();
    // EPERM: the socket of an earlier daemon owns this barrier. It goes when that socket is closed.
    if (Status deleted = barrier.Commit(netfilter_.get());
        !deleted && !IsAbsent(deleted.error()) && deleted.error().error_number() != EPERM) {
      return deleted;
    }
  }
  NetlinkBatch gateway;
  AddGatewayRemoval(gateway, instance_, ipv6_);
  if (Status removed = Exchange(route_.get(), gateway); !removed && !IsAbsent(removed.error())) {
    return removed;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Network>> Network::Open(const NetworkConfig& config) {
  auto network = HostNetwork::Make(config);
  if (!network) {
    return Fail(std::move(network).error().Wrap("open network " + std::to_string(config.instance)));
  }
  return network;
}

}  // namespace atl::netpolicy
