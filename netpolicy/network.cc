#include "netpolicy/network.h"

#include <linux/netlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "netpolicy/addresses.h"
#include "netpolicy/conntrack.h"
#include "netpolicy/dns_forwarder.h"
#include "netpolicy/forwarding.h"
#include "netpolicy/link.h"
#include "netpolicy/netlink.h"
#include "netpolicy/ruleset.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

constexpr uint32_t kDefaultMtu = 1500;
// A walk through the connection table takes a pool thread 15 ms: at most 1.5 % of a core.
constexpr int64_t kSweepIntervalUs = 1'000'000;
constexpr uint32_t kSmallestMtu = 1280;  // IPv6's, RFC 8200 section 5

Status CheckSlot(uint32_t slot) {
  if (slot >= 1 && slot <= kMaxSlot) return {};
  return Fail(Code::kInvalidArgument,
              "network slot " + std::to_string(slot) + ": not 1 to " + std::to_string(kMaxSlot));
}

// "Such a thing is not there": fine when it was to be removed.
bool IsAbsent(const Error& error) {
  const int number = error.error_number();
  return number == ENOENT || number == ENODEV || number == EADDRNOTAVAIL || number == ESRCH;
}

class HostNetwork final : public Network {
 public:
  static Result<std::unique_ptr<Network>> Make(const NetworkConfig& config);

  ~HostNetwork() override;
  Status Start(Loop& loop) override;
  Status AttachSlot(uint32_t slot, int rtnetlink) override;
  Status DetachSlot(uint32_t slot) override;
  bool SlotLinkGone(uint32_t slot) override;
  Status Recover(const std::vector<uint32_t>& live) override;
  Status RemoveAll() override;

 private:
  HostNetwork() = default;
  Status OpenSockets();
  Status InstallHostSide(const NetworkConfig& config);
  Status CreateLink(const SlotLink& link, int rtnetlink);
  Status SetElements(uint32_t slot, void (*change)(NftTransaction&, uint32_t, uint32_t));
  Status CutFlowsNow();
  void CutFlowsLater();
  void SweepFlows();
  Status RemoveLinks(const std::vector<uint32_t>& slots);

  uint32_t instance_ = 0;
  uint32_t mtu_ = kDefaultMtu;
  bool ipv6_ = false;
  // Opened while privileged and kept: see OpenNetlink. Keeping them also spares every call the
  // 12 ms that closing an nfnetlink socket takes while deletions are pending.
  UniqueFd route_;
  UniqueFd netfilter_;
  UniqueFd host_netns_;
  UniqueFd interfaces_;  // any socket, for SIOCGIFINDEX
  std::unique_ptr<DnsForwarder> dns_;

  // Detached slots whose flows may still be there.
  std::set<uint32_t> uncut_;
  Loop* loop_ = nullptr;
  Loop::Id sweep_timer_ = 0;
  bool sweeping_ = false;
  // Of its own, for the pool thread; shared with the work, which may outlive this object.
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
  ATOLL_TRY(network->OpenSockets());
  ATOLL_TRY(network->InstallHostSide(config));

  DnsForwarder::Config dns;
  dns.upstreams = config.dns_upstreams;
  dns.listen.push_back(ToString(GatewayIpv4(config.instance)));
  if (network->ipv6_) dns.listen.push_back(ToString(GatewayIpv6(config.instance)));
  ATOLL_ASSIGN(network->dns_, DnsForwarder::Open(std::move(dns)));
  return std::unique_ptr<Network>(std::move(network));
}

Status HostNetwork::OpenSockets() {
  ATOLL_ASSIGN(route_, OpenNetlink(NETLINK_ROUTE));
  ATOLL_ASSIGN(netfilter_, OpenNetlink(NETLINK_NETFILTER));
  ATOLL_ASSIGN(host_netns_, sys::Open("/proc/self/ns/net", O_RDONLY));
  ATOLL_ASSIGN(UniqueFd sweep, OpenNetlink(NETLINK_NETFILTER));
  sweep_socket_ = std::make_shared<UniqueFd>(std::move(sweep));
  interfaces_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!interfaces_) return FailSys("socket AF_UNIX");
  return {};
}

Status HostNetwork::InstallHostSide(const NetworkConfig& config) {
  // Rules before forwarding: there is no moment at which sandboxes are routed without them.
  NftTransaction table(TableName(instance_));
  AddRuleset(table, instance_);
  ATOLL_TRY(table.Commit(netfilter_.get()));
  NetlinkBatch gateway;
  AddGatewayMessages(gateway, instance_, ipv6_);
  ATOLL_TRY(Exchange(route_.get(), gateway));
  ATOLL_TRY(EnableForwarding());

  mtu_ = config.mtu;
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
  return AwaitCarrier(rtnetlink, kInsideIfindex, kInsideLink);
}

Status HostNetwork::AttachSlot(uint32_t slot, int rtnetlink) {
  ATOLL_TRY(CheckSlot(slot));
  const SlotLink link{instance_, slot, mtu_, ipv6_};
  Status created = CreateLink(link, rtnetlink);
  if (!created && created.error().error_number() == EEXIST) {
    // A link that a crash has left behind has the name. Only here, because deleting it takes the
    // 15 ms of its grace periods.
    NetlinkBatch stale;
    AddLinkDeletion(stale, LinkName(instance_, slot));
    if (Exchange(route_.get(), stale)) created = CreateLink(link, rtnetlink);
  }
  if (created) created = SetElements(slot, AddSlotElements);
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

Status HostNetwork::Start(Loop& loop) {
  ATOLL_TRY(dns_->Start(loop));
  loop_ = &loop;
  return {};
}

Status HostNetwork::CutFlowsNow() {
  const std::vector<uint32_t> slots(uncut_.begin(), uncut_.end());
  ATOLL_TRY(CutFlows(netfilter_.get(), instance_, slots));
  uncut_.clear();
  return {};
}

void HostNetwork::CutFlowsLater() {
  if (uncut_.empty() || sweeping_ || sweep_timer_ != 0) return;
  sweep_timer_ = loop_->After(kSweepIntervalUs, [this] {
    sweep_timer_ = 0;
    SweepFlows();
  });
}

void HostNetwork::SweepFlows() {
  struct Sweep {
    std::vector<uint32_t> slots;
    bool done = false;
  };
  auto sweep = std::make_shared<Sweep>();
  sweep->slots.assign(uncut_.begin(), uncut_.end());
  sweeping_ = true;
  loop_->RunBlocking(
      [sweep, socket = sweep_socket_, instance = instance_] {
        sweep->done = CutFlows(socket->get(), instance, sweep->slots).has_value();
      },
      [this, alive = alive_, sweep] {
        if (!*alive) return;
        sweeping_ = false;
        // A sweep that failed is tried again; until one succeeds the slots stay out of use.
        if (sweep->done) {
          for (const uint32_t slot : sweep->slots) uncut_.erase(slot);
        }
        CutFlowsLater();
      });
}

Status HostNetwork::DetachSlot(uint32_t slot) {
  ATOLL_TRY(CheckSlot(slot));
  // Elements first: without them no packet of the slot can make a new flow.
  Status removed = SetElements(slot, DeleteSlotElements);
  if (!removed && !IsAbsent(removed.error())) {
    return Fail(std::move(removed).error().Wrap("detach network slot " + std::to_string(slot)));
  }
  uncut_.insert(slot);
  if (!loop_) return CutFlowsNow();
  CutFlowsLater();
  return {};
}

bool HostNetwork::SlotLinkGone(uint32_t slot) {
  if (uncut_.contains(slot)) return false;
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

Status HostNetwork::Recover(const std::vector<uint32_t>& live) {
  for (const uint32_t slot : live) ATOLL_TRY(CheckSlot(slot));
  // One transaction: the live ones are never without their elements.
  NftTransaction transaction(TableName(instance_));
  transaction.FlushSet(kLinkSet4);
  transaction.FlushSet(kLinkSet6);
  for (const uint32_t slot : live) AddSlotElements(transaction, instance_, slot);
  ATOLL_TRY(transaction.Commit(netfilter_.get()));

  ATOLL_ASSIGN(std::vector<uint32_t> dead, ListSlotLinks(route_.get(), instance_));
  std::erase_if(
      dead, [&](uint32_t slot) { return std::find(live.begin(), live.end(), slot) != live.end(); });
  ATOLL_TRY(RemoveLinks(dead));
  // Also of those whose link went before this daemon came.
  for (uint32_t slot = 1; slot <= kMaxSlot; ++slot) {
    if (std::find(live.begin(), live.end(), slot) == live.end()) uncut_.insert(slot);
  }
  return CutFlowsNow();
}

Status HostNetwork::RemoveAll() {
  // Links first: as long as one is there, so are the rules.
  ATOLL_ASSIGN(const std::vector<uint32_t> slots, ListSlotLinks(route_.get(), instance_));
  ATOLL_TRY(RemoveLinks(slots));
  dns_.reset();
  NftTransaction table(TableName(instance_));
  table.DeleteTable();
  if (Status deleted = table.Commit(netfilter_.get()); !deleted && !IsAbsent(deleted.error())) {
    return deleted;
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
