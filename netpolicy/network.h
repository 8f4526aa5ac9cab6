// The network of all sandboxes of one daemon: addresses, veth pairs, routes, NAT and isolation
// rules.
//
// Every sandbox has a slot; its addresses, link name and MACs follow from the slot's number. Links
// are routed, not bridged: the host's end of each veth pair has no address, a /32 and a /128 route
// lead to it, and inside, the default route goes on-link to one gateway address that lives on the
// host's lo. All rules stand in one nftables table of ours, keyed by sets, so that a sandbox costs
// a few set elements, not rules. Everything that a sandbox could attack is enforced in the host's
// namespace.
//
// The daemon's user holds CAP_NET_ADMIN, nothing else is needed after Open. Thread rule: on the
// loop; every call is a few netlink round trips and does not wait for RCU grace periods unless it
// says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netpolicy/address/addresses.h"
#include "netpolicy/policy/denials.h"
#include "netpolicy/policy/egress.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/policy/policy.h"
#include "netpolicy/policy/slot_request.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct NetworkConfig {
  // 0 to 7: tells the daemons of one host apart. It is in every name and address:
  // nft table "inet atoll<instance>", links "atl<instance>-<slot>", 10.(200+instance).0.0/16 with
  // the gateway 10.(200+instance).255.254, fd61:746c:6c0<instance>::/64 with the gateway ::ffff.
  // Two daemons of one host never share an instance.
  uint32_t instance = 0;
  // Resolvers that the forwarder asks, "address" or "address:port"; empty: the host's resolv.conf.
  std::vector<std::string> dns_upstreams;
  // Of every sandbox link, 1280 to 65535; 0: that of the host's default route, at most 1500, so
  // that no sandbox depends on path MTU discovery through the first hop.
  uint32_t mtu = 0;

  // Refused to everybody unless a policy names an address or a prefix within them; the metadata
  // services are too, whatever stands here.
  std::vector<IpPrefix> private_networks = DefaultPrivate();
  OperatorRules rules;
  // A sandbox without a policy may reach nothing, instead of everything.
  bool deny_unless_asked = false;
  // Connections to 80 and 443 that carry no name, or may hide one, pass the proxy.
  bool allow_unnamed = false;
  // Of one sandbox at a time, 1 to 1,000,000.
  uint32_t max_connections = 4096;
};

class Interceptor;

class Network {
 public:
  // Needs root or CAP_NET_ADMIN and CAP_NET_BIND_SERVICE: installs the table in one transaction,
  // puts the gateway addresses on lo, turns forwarding on (and remembers whether it was), binds the
  // DNS sockets. Idempotent: a daemon that starts again finds its own table and links and keeps
  // them.
  static Result<std::unique_ptr<Network>> Open(const NetworkConfig& config);
  virtual ~Network() = default;

  // Starts to answer DNS on the loop, and to watch what others do to the host's side: what they
  // take away is put back, and shown in `health` as "network".
  virtual Status Start(Loop& loop, Health& health) = 0;

  // Gives the slot its link: `rtnetlink` is a NETLINK_ROUTE socket that was opened inside the
  // slot's namespace (by the spawner). Creates the veth pair in one message, sets addresses,
  // permanent neighbours and routes on both sides and adds the set elements, all before it returns.
  virtual Status AttachSlot(uint32_t slot, int rtnetlink) = 0;

  // Before the slot's first process: what it may reach. kInvalidArgument: the
  // request, and nothing has changed. A slot that asks for nothing costs nothing.
  virtual Status ClaimSlot(uint32_t slot, const SlotRequest& request) = 0;
  // What ClaimSlot would say to the request, whatever the slot.
  virtual Status CheckRequest(const SlotRequest& request) const = 0;
  // A policy made ready, with the operator's lists; kInvalidArgument: what is wrong with it.
  virtual Result<std::shared_ptr<const Egress>> MakeReady(SharedPolicy policy) const = 0;
  // Another policy, at once and as a whole, or not at all. Flows that it does not allow are cut
  // within a tenth of a second.
  virtual Status SetPolicy(uint32_t slot, std::shared_ptr<const Egress> egress) = 0;
  // Who takes over connections that the slot begins by name to 80 and 443, from now on
  // (splice/interceptor.h); null, as it is at first: nobody.
  virtual void SetInterceptor(uint32_t slot, std::shared_ptr<Interceptor> interceptor) = 0;
  // Null: the slot is not claimed, or may reach all that is not guarded.
  virtual SharedPolicy PolicyOf(uint32_t slot) const = 0;
  virtual std::vector<LearnedName> LearnedBy(uint32_t slot) const = 0;
  virtual std::vector<Denial> DenialsOf(uint32_t slot) const = 0;  // oldest first
  virtual Result<SlotCounters> CountersOf(uint32_t slot) = 0;
  // How often something that others took away was put back.
  virtual uint64_t repairs() const = 0;
  // Called for each that is news, at most some ten a second of a sandbox.
  virtual void OnDenied(OnDenial on_denial) = 0;

  // Takes the slot's set elements away: nothing of it gets through any more. Its flows are cut
  // within a second or so, off the loop and together with those of other slots (the kernel walks
  // its whole table, 15 ms); before Start, at once. The link itself dies with its namespace, when
  // the last process and descriptor are gone; never deleted here, that would wait for a grace
  // period.
  virtual Status DetachSlot(uint32_t slot) = 0;

  // True when the slot's link is gone and its flows are cut, so that its addresses may be used
  // again.
  virtual bool SlotLinkGone(uint32_t slot) = 0;

  // Of slots that are detached, where something keeps the namespace and with it the link. Waits for
  // a grace period. Absent ones are not an error.
  virtual Status RemoveLinks(const std::vector<uint32_t>& slots) = 0;

  // After a restart: detaches every slot of this instance that is not in `live`, links included.
  virtual Status Recover(const std::vector<LiveSlot>& live) = 0;

  // What the barrier belongs to: closed, that goes too. Whoever keeps a duplicate keeps links of
  // sandboxes behind rules while no daemon runs. Borrowed.
  virtual int rules_socket() const = 0;

  // Removes the table, the gateway addresses and every link of this instance: for `atoll shutdown
  // --all`.
  virtual Status RemoveAll() = 0;
};

}  // namespace atl::netpolicy
