// Measures the cost of one sandbox's network, in a network namespace of its own.
#include <sched.h>

#include "bench/netns.h"
#include "bench/parts.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/network.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/rules/conntrack.h"
#include "netpolicy/rules/nft.h"
#include "netpolicy/rules/ruleset.h"

namespace atl::bench {
namespace {

constexpr uint32_t kInstance = 7;

struct NetworkParts {
  UniqueFd host, rules;
  std::unique_ptr<netpolicy::Network> network;
  uint32_t slot = 0;

  // Moves the calling thread into a namespace of its own, so these rows are the last of their
  // group.
  Status Open() {
    ATOLL_ASSIGN(host, NewNetns());
    netpolicy::NetworkConfig config;
    config.instance = kInstance;
    ATOLL_ASSIGN(network, netpolicy::Network::Open(config));
    ATOLL_ASSIGN(rules, netpolicy::OpenNetlink(NETLINK_NETFILTER));
    return {};
  }

  // Attach closes the last descriptor of the namespace, which the kernel then removes by itself.
  Status Attach(Take& take) {
    slot = slot % netpolicy::kMaxSlot + 1;
    const int64_t began = NowMicros();
    if (::unshare(CLONE_NEWNET) != 0) return FailSys("unshare CLONE_NEWNET");
    take.Add("network namespace", static_cast<double>(MicrosSince(began)));
    ATOLL_ASSIGN(const UniqueFd rtnetlink, netpolicy::OpenNetlink(NETLINK_ROUTE));
    ATOLL_TRY(EnterNetns(host));
    const int64_t start = NowMicros();
    ATOLL_TRY(network->AttachSlot(slot, rtnetlink.get()));
    take.Add("link of a slot", static_cast<double>(MicrosSince(start)));
    return {};
  }
  Status Elements() const {
    netpolicy::NftTransaction add(netpolicy::TableName(kInstance));
    netpolicy::AddSlotElements(add, kInstance, 1);
    ATOLL_TRY(add.Commit(rules.get()));
    netpolicy::NftTransaction remove(netpolicy::TableName(kInstance));
    netpolicy::DeleteSlotElements(remove, kInstance, 1);
    return remove.Commit(rules.get());
  }
  Status Table() const {
    netpolicy::NftTransaction table(netpolicy::TableName(kInstance));
    netpolicy::AddRuleset(table, {.instance = kInstance,
                                  .guarded = netpolicy::DefaultPrivate(),
                                  .proxy_port = 1,
                                  .log_group = 1,
                                  .max_connections = 1});
    return table.Commit(rules.get());
  }
  Status Cut() const {
    ATOLL_TRY(netpolicy::CutFlows(rules.get(), kInstance,
                                  [](const netpolicy::Flow& flow) { return flow.slot == 1; }));
    return {};
  }
};

}  // namespace

void AddNetworkParts(Phases* phases) {
  const auto parts = std::make_shared<NetworkParts>();
  phases->push_back({.run = [=](Take&) { return parts->Open(); }});
  // Runs before the links exist, because their elements would be counted in the sets.
  phases->push_back(Part("set elements of a slot", "added and removed", 100, 5,
                         [=] { return parts->Elements(); }));
  phases->push_back(Part("ruleset", "the whole table, in one transaction", 50, 1,
                         [=] { return parts->Table(); }));
  phases->push_back(Part("flows cut", "none are there: the walk of the kernel's table", 20, 1,
                         [=] { return parts->Cut(); }));
  phases->push_back(
      {.series = {{"network namespace", "unshare(2)", "µs", {}},
                  {"link of a slot", "addresses, routes, neighbours and set elements", "µs", {}}},
       .samples = 200,
       .run = [=](Take& take) { return parts->Attach(take); }});
}

}  // namespace atl::bench
