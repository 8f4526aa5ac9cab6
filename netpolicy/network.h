// The network of all sandboxes of one daemon: addresses, veth pairs, routes, NAT and isolation
// rules.
//
// Every sandbox has a slot. Its addresses, link name and MACs follow from the slot's number. Links
// are routed, not bridged. The host's end of each veth pair has no address; a /32 and a /128 route
// lead to it. Inside, the default route goes on-link to one gateway address, which lives on the
// host's lo. All rules are in one nftables table and are keyed by sets, so a sandbox costs a few
// set elements and no rule. Everything is enforced in the host's namespace, where a sandbox has no
// rights.
//
// After Open, the daemon's user needs only CAP_NET_ADMIN.
//
// Thread rule: on the loop. Every call is a few netlink round trips. No call waits for an RCU grace
// period unless its comment says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netpolicy/address/addresses.h"
#include "netpolicy/dns/dns_counts.h"
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
  // Distinguishes the daemons of one host, 0 to 7. Two daemons of one host never share an instance.
  // It is part of every name and address:
  // - the nftables table "inet atoll<instance>" and the links "atl<instance>-<slot>";
  // - 10.(200+instance).0.0/16 with the gateway 10.(200+instance).255.254;
  // - fd61:746c:6c0<instance>::/64 with the gateway ::ffff.
  uint32_t instance = 0;
  // Upstream resolvers, "address" or "address:port". Empty: those of the host's resolv.conf.
  std::vector<std::string> dns_upstreams;
  // MTU of every sandbox link, 1280 to 65535. 0: the MTU of the host's default route, at most 1500,
  // so that no sandbox depends on path MTU discovery at the first hop.
  uint32_t mtu = 0;

  // Networks that no sandbox reaches unless its policy names one of their addresses or a prefix
  // within them. The metadata services are always guarded in this way.
  std::vector<IpPrefix> private_networks = DefaultPrivate();
  OperatorRules rules;
  // If set, a sandbox without a policy may reach nothing. Otherwise it may reach everything that is
  // not guarded.
  bool deny_unless_asked = false;
  // If set, the proxy passes connections to 80 and 443 that carry no name or may hide one.
  bool allow_unnamed = false;
  // Most tracked connections of one sandbox at a time, 1 to 1,000,000.
  uint32_t max_connections = 4096;
};

class Interceptor;

class Network {
 public:
  // Installs the table in one transaction, puts the gateway addresses on lo, turns forwarding on
  // (and remembers whether it was on), and binds the DNS sockets. Needs root, or CAP_NET_ADMIN and
  // CAP_NET_BIND_SERVICE. Idempotent: a restarted daemon finds its own table and links and keeps
  // them.
  static Result<std::unique_ptr<Network>> Open(const NetworkConfig& config);
  virtual ~Network() = default;

  // Starts to answer DNS on the loop, and to watch what other programs change on the host's side.
  // What they remove is restored, and `health` reports it as "network".
  virtual Status Start(Loop& loop, Health& health) = 0;

  // Creates the slot's link. `rtnetlink` is a NETLINK_ROUTE socket that the spawner opened inside
  // the slot's network namespace. When the call returns, the veth pair, the addresses, the
  // permanent neighbours and routes of both sides and the set elements exist.
  virtual Status AttachSlot(uint32_t slot, int rtnetlink) = 0;

  // Sets what the slot may reach. Call before its first process starts. kInvalidArgument: the
  // request is wrong and nothing has changed. A request for nothing special costs no netlink call.
  virtual Status ClaimSlot(uint32_t slot, const SlotRequest& request) = 0;
  // Returns the error that ClaimSlot would return for the request in any slot.
  virtual Status CheckRequest(const SlotRequest& request) const = 0;
  // Sets where the ceilings of tenants come from. Call before the first claim; without it there are
  // none. Each policy is restricted to the ceiling of its slot's tenant when it is made ready.
  virtual void SetCeilings(CeilingOf ceilings) = 0;
  // Combines a policy of a tenant's sandbox with the operator's lists and the tenant's ceiling.
  // kInvalidArgument: the policy cannot be enforced; the message says why.
  virtual Result<std::shared_ptr<const Egress>> MakeReady(SharedPolicy policy,
                                                          const std::string& tenant) const = 0;
  // Replaces the policy of a slot in one transaction. If it fails, the former policy stays. Flows
  // that the new policy does not allow are cut within a tenth of a second. kInternal: the slot's
  // policy had a ceiling, and the new one was made without.
  virtual Status SetPolicy(uint32_t slot, std::shared_ptr<const Egress> egress) = 0;
  // Sets the interceptor (splice/interceptor.h) that takes over new connections of the slot to
  // ports 80 and 443. Null, the initial value, means none.
  virtual void SetInterceptor(uint32_t slot, std::shared_ptr<Interceptor> interceptor) = 0;
  // Returns the slot's policy. Null if the slot is not claimed, or may reach everything that is not
  // guarded.
  virtual SharedPolicy PolicyOf(uint32_t slot) const = 0;
  virtual std::vector<LearnedName> LearnedBy(uint32_t slot) const = 0;
  virtual std::vector<Denial> DenialsOf(uint32_t slot) const = 0;  // oldest first
  virtual Result<SlotCounters> CountersOf(uint32_t slot) = 0;
  // How many times the rules or links were restored after another program changed them.
  virtual uint64_t repairs() const = 0;
  // Questions of sandboxes to the name server, since it was opened.
  virtual const DnsCounts& dns_counts() const = 0;
  // Sets the callback for new denials. It is called about 10 times a second at most for each
  // sandbox.
  virtual void OnDenied(OnDenial on_denial) = 0;

  // Removes the slot's set elements: no packet of it passes any more. Its flows are cut within
  // about a second, on a pool thread and together with those of other slots, because the kernel
  // walks its whole table (15 ms) to find them. Before Start they are cut at once. The link is not
  // deleted here, because that would wait for a grace period. It dies with its network namespace,
  // when the last process and descriptor are gone.
  virtual Status DetachSlot(uint32_t slot) = 0;

  // Returns true if the slot's link is gone and its flows are cut. Only then may its addresses be
  // used again.
  virtual bool SlotLinkGone(uint32_t slot) = 0;

  // Deletes the links of detached slots whose network namespace is kept alive by something. Blocks
  // for a grace period. A link that is already gone is not an error.
  virtual Status RemoveLinks(const std::vector<uint32_t>& slots) = 0;

  // Rebuilds the state after a restart. Detaches every slot of this instance that is not in `live`
  // and deletes its link.
  virtual Status Recover(const std::vector<LiveSlot>& live) = 0;

  // The netlink socket that owns the barrier (rules/barrier.h). The kernel deletes the barrier when
  // the last duplicate of this socket is closed, so whoever keeps a duplicate keeps sandbox links
  // closed to unfiltered traffic while no daemon runs. Borrowed.
  virtual int rules_socket() const = 0;

  // Removes the table, the gateway addresses and every link of this instance, for `atoll shutdown
  // --all`.
  virtual Status RemoveAll() = 0;
};

}  // namespace atl::netpolicy
