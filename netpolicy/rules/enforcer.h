// The policies of all slots. Keeps the kernel, the name server and the proxy consistent with them.
//
// A slot is open until it is claimed; nothing runs in it before that. The kernel's state of a slot
// changes in one transaction. If that fails, the slot keeps its former state, so no failure opens
// anything. A name's addresses are in the kernel before the answer that contains them leaves.
//
// Thread rule: on the loop; calls are one netlink round trip.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "netpolicy/dns/dns_gate.h"
#include "netpolicy/policy/denials.h"
#include "netpolicy/policy/egress.h"
#include "netpolicy/policy/slot_request.h"
#include "netpolicy/rules/conntrack.h"
#include "netpolicy/rules/learned.h"
#include "netpolicy/rules/named_networks.h"
#include "netpolicy/rules/packet_log.h"
#include "netpolicy/rules/policy_sets.h"
#include "runtime/base/clock.h"

namespace atl::netpolicy {

class Enforcer final : public DnsGate {
 public:
  struct Config {
    uint32_t instance = 0;
    std::vector<IpPrefix> guarded;
    OperatorRules rules;
    bool deny_unless_asked = false;
  };
  // `nfnetlink` is borrowed.
  Enforcer(Config config, int nfnetlink, const Clock& clock)
      : config_(std::move(config)), nfnetlink_(nfnetlink), clock_(clock) {}
  Enforcer(const Enforcer&) = delete;
  Enforcer& operator=(const Enforcer&) = delete;

  void OnDenied(OnDenial on_denial) { on_denial_ = std::move(on_denial); }
  void SetCeilings(netpolicy::CeilingOf ceilings) { ceilings_ = std::move(ceilings); }
  // Returns the tenant's ceiling; null: none.
  SharedCeiling CeilingOf(const std::string& tenant) const {
    return ceilings_ ? ceilings_(tenant) : nullptr;
  }

  // Applies the request to a slot. Call before its first process starts.
  Status Claim(uint32_t slot, const SlotRequest& request);
  // Checks the parts of a request that do not depend on a slot.
  Status Check(const SlotRequest& request) const;
  // See Network::MakeReady.
  Result<std::shared_ptr<const Egress>> MakeReady(SharedPolicy policy, SharedCeiling ceiling) const;
  // Replaces the policy of a slot. The caller cuts the flows that it does not allow: see
  // JudgeOfFlows.
  Status SetPolicy(uint32_t slot, std::shared_ptr<const Egress> egress);
  // Removes the slot's policy. Call after its link passes nothing any more. If it fails, the slot
  // stays claimed and Release must be called again. Does nothing for a slot that is not claimed.
  Status Release(uint32_t slot);
  // Appends everything that the kernel's sets should hold for an attached slot, claimed or not, to
  // an empty table.
  void AddSlotAnew(NftTransaction& transaction, uint32_t slot) const;
  // Replaces the kernel's state after a restart by that of `live` and the addresses that these
  // slots had learned.
  Status Recover(const std::vector<LiveSlot>& live);

  SharedPolicy PolicyOf(uint32_t slot) const;
  std::vector<LearnedName> LearnedBy(uint32_t slot) const;
  const Denials* DenialsOf(uint32_t slot) const;
  // Returns a function that is true for flows of the slot that its present policy would not allow.
  // The function may run on another thread, while the policy may change again.
  std::function<bool(const Flow&)> JudgeOfFlows(uint32_t slot) const;
  // Like JudgeOfFlows, for flows from before a restart, whose configuration may have changed. The
  // names of learned addresses are unknown then, so it judges only by rules for addresses and by
  // guarded addresses.
  std::function<bool(const Flow&)> JudgeOfOldFlows(uint32_t slot) const;

  // Returns the policy of a source, for the proxy. Null if it has none.
  std::shared_ptr<const Egress> EgressOf(std::string_view source) const;
  // Returns those of `addresses` that a name may lead the source to at a TCP port: no rule denies
  // them, and they are not guarded.
  std::vector<IpAddress> Reachable(std::string_view source, uint16_t port,
                                   const std::vector<IpAddress>& addresses) const;
  // Returns true if a connection without a name may go to the address: by default, or because an
  // allowed name has led to it.
  bool AllowsUnnamed(std::string_view source, const IpAddress& address, uint16_t port) const;
  void Deny(std::string_view source, Denial denial);
  void OnPacket(const LoggedPacket& packet);

  Judgement Judge(std::string_view source, std::string_view name, uint16_t type) override;
  bool Learn(std::string_view source, std::string_view name,
             const std::vector<std::string>& aliases, const std::vector<IpAddress>& addresses,
             uint32_t ttl_seconds) override;

 private:
  struct Slot {
    std::string sandbox;
    SharedPolicy policy;                   // null: the client asked for none
    std::shared_ptr<const Egress> egress;  // null: everything is allowed
    std::string network, hostname;         // network: a NetworkKey
    uint32_t network_number = 0;           // 0: no network
    Learned learned;
    Denials denials;
  };

  void Deny(Slot& slot, Denial denial);
  Result<Slot> Make(const SlotRequest& request) const;
  const Slot* Find(std::string_view source, uint32_t* number) const;
  Slot* Find(std::string_view source, uint32_t* number) {
    return const_cast<Slot*>(std::as_const(*this).Find(source, number));
  }
  void JoinNetwork(Slot& slot, uint32_t number);
  Status Commit(NftTransaction& transaction) const { return transaction.Commit(nfnetlink_); }
  enum class Guard : uint8_t { kNone, kUnlessNamed, kNever };
  Guard GuardOf(const IpAddress& address) const;
  // Returns true if no answer may contain the address: it is guarded, and no rule names it.
  bool IsBarred(const Slot& slot, const IpAddress& address) const;
  // Returns true if the proxy may connect to the address for the slot, once a name or the default
  // allows it.
  bool MayDial(const Slot& slot, const IpAddress& address, uint16_t port) const;
  bool TellKernel(uint32_t number, Slot& slot, std::string_view name,
                  const std::vector<LearnedKey>& keys, uint32_t ttl_seconds);
  void ForgetLearned(uint32_t number, const std::vector<LearnedKey>& keys);
  std::vector<std::shared_ptr<const Egress>> IntermediatePolicies(const Egress* before,
                                                                  const Egress& after) const;
  Status RestorePolicy(uint32_t number, Slot& slot, std::shared_ptr<const Egress> before,
                       const Status& why);
  Status ChangeElements(uint32_t number, const Slot& slot, const Egress* after, bool leaves);
  Status AdoptLearned();

  const Config config_;
  const int nfnetlink_;
  const Clock& clock_;
  OnDenial on_denial_;
  netpolicy::CeilingOf ceilings_;  // null: no tenant has a ceiling
  std::unordered_map<uint32_t, Slot> slots_;
  NamedNetworks networks_;
  // Cached results of GuardOf, valid for a second from guards_since_us_.
  mutable std::map<IpAddress, Guard> guards_;
  mutable int64_t guards_since_us_ = 0;
};

}  // namespace atl::netpolicy
