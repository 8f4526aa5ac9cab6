// The policies of all slots, and what keeps kernel, name server and proxy in step with them.
//
// A slot is open until it is claimed; nothing runs in it until then. What the kernel holds of a
// slot changes in one transaction, and if that fails the slot has what it had before: no failure
// opens anything. A name's addresses are in the kernel before the answer that holds them leaves.
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

  // Before the first process of the slot.
  Status Claim(uint32_t slot, const SlotRequest& request);
  // What is checked of a request without a slot for it.
  Status Check(const SlotRequest& request) const;
  // See Network.
  Result<std::shared_ptr<const Egress>> MakeReady(SharedPolicy policy) const;
  // Another policy from now on. Flows that it does not allow are for the caller to cut:
  // JudgeOfFlows.
  Status SetPolicy(uint32_t slot, std::shared_ptr<const Egress> egress);
  // The slot's sandbox is gone; its link lets nothing through any more. After a failure the slot is
  // still claimed, and this is to be called again; nothing to do for one that is not claimed.
  Status Release(uint32_t slot);
  // All that the kernel's sets should hold of an attached slot, claimed or not, for a table that
  // holds nothing of it.
  void AddSlotAnew(NftTransaction& transaction, uint32_t slot) const;
  // After a restart: what the kernel holds is that of `live`, and what these have learned.
  Status Recover(const std::vector<LiveSlot>& live);

  SharedPolicy PolicyOf(uint32_t slot) const;
  std::vector<LearnedName> LearnedBy(uint32_t slot) const;
  const Denials* DenialsOf(uint32_t slot) const;
  // May be used on another thread, when the policy may have changed again: true for a flow of the
  // slot that its present policy would not let begin.
  std::function<bool(const Flow&)> JudgeOfFlows(uint32_t slot) const;
  // The same after a restart, with what the operator's configuration may have changed: what names
  // have led to is not known any more, so only what rules deny and what is guarded.
  std::function<bool(const Flow&)> JudgeOfOldFlows(uint32_t slot) const;

  // For the proxy.
  std::shared_ptr<const Egress> EgressOf(std::string_view source) const;
  // Only those of `addresses` that a name may lead the source to, for a TCP port: no rule denies
  // them, and they are not guarded.
  std::vector<IpAddress> Reachable(std::string_view source, uint16_t port,
                                   const std::vector<IpAddress>& addresses) const;
  // Whether a connection that carries no name may go to the address: by default, or because an
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
    SharedPolicy policy;                   // null: nobody asked for one
    std::shared_ptr<const Egress> egress;  // null: open
    std::string network, hostname;
    uint32_t network_number = 0;  // 0: in none
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
  // True if no answer may hold the address: it is guarded, and no rule names it.
  bool IsBarred(const Slot& slot, const IpAddress& address) const;
  // Whether the proxy may connect to it for the slot, if a name or the default lets it.
  bool MayDial(const Slot& slot, const IpAddress& address, uint16_t port) const;
  bool TellKernel(uint32_t number, Slot& slot, std::string_view name,
                  const std::vector<LearnedKey>& keys, uint32_t ttl_seconds);
  void ForgetLearned(uint32_t number, const std::vector<LearnedKey>& keys);
  std::vector<std::shared_ptr<const Egress>> Between(const Egress* before,
                                                     const Egress& after) const;
  Status TakeBack(uint32_t number, Slot& slot, std::shared_ptr<const Egress> before,
                  const Status& why);
  Status ChangeElements(uint32_t number, const Slot& slot, const Egress* after, bool leaves);
  Status AdoptLearned();

  const Config config_;
  const int nfnetlink_;
  const Clock& clock_;
  OnDenial on_denial_;
  std::unordered_map<uint32_t, Slot> slots_;
  NamedNetworks networks_;
  // What GuardOf has found in the second since then.
  mutable std::map<IpAddress, Guard> guards_;
  mutable int64_t guards_since_us_ = 0;
};

}  // namespace atl::netpolicy
