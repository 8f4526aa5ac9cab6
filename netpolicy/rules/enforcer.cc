#include "netpolicy/rules/enforcer.h"

#include <netinet/in.h>

#include <algorithm>
#include <set>
#include <utility>

#include "netpolicy/address/addresses.h"
#include "netpolicy/address/ports.h"
#include "netpolicy/policy/guards.h"
#include "runtime/base/log.h"

namespace atl::netpolicy {
namespace {

constexpr uint64_t kLeastBytesPerSecond = 1024;
constexpr uint64_t kMostBytesPerSecond = uint64_t{100} << 30;

std::string ProtocolName(uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
      return "icmp";
    case IPPROTO_SCTP:
      return "sctp";
    default:
      return std::to_string(protocol);
  }
}

// Returns true for flows that are judged elsewhere: by the name server, by the proxy, or, between
// sandboxes, by the named networks.
bool IsJudgedElsewhere(const Flow& flow) {
  return flow.to_gateway || AnyContains(NeverReachable(), flow.destination);
}

PortKey PortOf(const Flow& flow) {
  PortKey port{Transport::kAny, flow.port};
  if (flow.protocol == IPPROTO_TCP) port.transport = Transport::kTcp;
  if (flow.protocol == IPPROTO_UDP) port.transport = Transport::kUdp;
  return port;
}

// Returns whether the flow has to end because of a verdict on its address. Empty if there is no
// such verdict.
std::optional<bool> EndsByAddress(const Egress* egress, const std::vector<IpPrefix>& guarded,
                                  const Flow& flow, PortKey port) {
  const bool is_guarded = AnyContains(guarded, flow.destination);
  if (const auto said = egress ? egress->JudgeAddress(flow.destination, port) : std::nullopt) {
    return *said == RangeAction::kDeny || (*said == RangeAction::kAllow && is_guarded);
  }
  if (is_guarded) return true;
  return std::nullopt;
}

}  // namespace

Result<std::shared_ptr<const Egress>> Enforcer::MakeReady(SharedPolicy policy,
                                                          SharedCeiling ceiling) const {
  return Egress::Make(std::move(policy), config_.rules, config_.guarded, std::move(ceiling));
}

Result<Enforcer::Slot> Enforcer::Make(const SlotRequest& request) const {
  Slot slot;
  slot.sandbox = request.sandbox;
  slot.policy = request.policy;
  if (!slot.policy && config_.deny_unless_asked) slot.policy = Share({});
  SharedPolicy enforced = slot.policy;
  SharedCeiling ceiling = CeilingOf(request.tenant);
  if (!enforced && (ceiling || !config_.rules.deny_always.empty())) {
    // A sandbox without a policy still gets the operator's deny rules and its tenant's ceiling.
    enforced = Share({.default_action = Action::kAllow, .rules = {}});
  }
  if (enforced) {
    ATOLL_ASSIGN(slot.egress, MakeReady(std::move(enforced), std::move(ceiling)));
  }
  if (!request.network.empty()) ATOLL_TRY(CheckLabel("network", request.network));
  if (!request.hostname.empty()) {
    ATOLL_TRY(CheckLabel("network.hostname", request.hostname));
    if (request.network.empty()) {
      return Fail(Code::kInvalidArgument, "network.hostname '" + request.hostname +
                                              "' needs a network; name one with network");
    }
  }
  if (!request.network.empty()) slot.network = NetworkKey(request.tenant, request.network);
  slot.hostname = request.hostname;
  if (request.bytes_per_second != 0 && (request.bytes_per_second < kLeastBytesPerSecond ||
                                        request.bytes_per_second > kMostBytesPerSecond)) {
    return Fail(Code::kInvalidArgument, "network.bandwidth " +
                                            std::to_string(request.bytes_per_second * 8) +
                                            " bits a second: use 8K to 800G");
  }
  return slot;
}

Status Enforcer::Check(const SlotRequest& request) const {
  if (auto made = Make(request); !made) return Fail(std::move(made).error());
  return {};
}

void Enforcer::JoinNetwork(Slot& slot, uint32_t number) {
  if (slot.network.empty()) return;
  if (!slot.hostname.empty()) networks_.Join(slot.network, slot.hostname, number);
  slot.network_number = networks_.Join(slot.network, slot.sandbox, number);
}

Status Enforcer::Claim(uint32_t number, const SlotRequest& request) {
  ATOLL_ASSIGN(Slot slot, Make(request));
  JoinNetwork(slot, number);
  Slot& kept = slots_.insert_or_assign(number, std::move(slot)).first->second;
  NftTransaction transaction(TableName(config_.instance));
  ChangePolicyElements(transaction, config_.instance, number, nullptr, kept.egress.get());
  if (kept.network_number != 0) {
    AddMember(transaction, config_.instance, number, kept.network_number);
  }
  if (transaction.empty()) return {};
  Status committed = Commit(transaction);
  if (!committed) {
    // The transaction failed, so the kernel holds nothing of the slot.
    kept.egress = nullptr;
    kept.network_number = 0;
    (void)Release(number);
  }
  return committed;
}

Status Enforcer::SetPolicy(uint32_t number, std::shared_ptr<const Egress> egress) {
  const auto found = slots_.find(number);
  if (found == slots_.end()) {
    return Fail(Code::kNotFound, "network slot " + std::to_string(number) + " is not claimed");
  }
  Slot& slot = found->second;
  // A ceiling restricts every policy of the slot. A caller that forgot it would open the sandbox.
  if (slot.egress && slot.egress->ceiling() && !egress->ceiling()) {
    return Fail(Code::kInternal, "network slot " + std::to_string(number) +
                                     ": a policy without the ceiling of the sandbox's tenant");
  }

  // Addresses learned by names that are no longer allowed are removed first. If the rest fails, too
  // little is allowed, not too much.
  std::vector<LearnedKey> stale;
  for (const auto& [key, entry] : slot.learned.entries()) {
    const NameScope scope = entry.name.empty() ? NameScope{} : egress->JudgeName(entry.name);
    const bool stays = key.port ? !scope.any_port && scope.Allows(*key.port) : scope.any_port;
    if (!stays) stale.push_back(key);
  }
  ForgetLearned(number, stale);
  for (const LearnedKey& key : stale) slot.learned.Remove(key);

  const std::shared_ptr<const Egress> before = slot.egress;
  for (const auto& between : IntermediatePolicies(before.get(), *egress)) {
    const Status changed = ChangeElements(number, slot, between.get(), false);
    if (!changed) return RestorePolicy(number, slot, before, changed);
    slot.egress = between;
  }
  const Status changed = ChangeElements(number, slot, egress.get(), false);
  if (!changed) return RestorePolicy(number, slot, before, changed);
  slot.policy = egress->policy();
  slot.egress = std::move(egress);
  return {};
}

// Returns policies to install between two others. A packet that is judged while a transaction takes
// effect may see one set before and the next one after the change, because each lookup reads the
// generation anew. If the default action changes, such a packet could pass although one policy
// denies it by a rule and the other by default. Therefore the rules are first changed to those of
// both policies with the former default, then the default is changed, and then the rules.
std::vector<std::shared_ptr<const Egress>> Enforcer::IntermediatePolicies(
    const Egress* before, const Egress& after) const {
  if (before == nullptr || before->default_action() == after.default_action()) return {};
  // Only a reload of the tenants changes whether there is a ceiling.
  if (before->ceiling() || after.ceiling()) return {};
  // The rules of the policy that allows by default come first. It denies nothing except by them,
  // and what both policies allow, the other one allows by its own rules.
  const bool opens = after.default_action() == Action::kAllow;
  const Policy& first = opens ? *after.policy() : *before->policy();
  const Policy& second = opens ? *before->policy() : *after.policy();
  Policy both{before->default_action(), first.rules};
  both.rules.insert(both.rules.end(), second.rules.begin(), second.rules.end());
  Policy turned{after.default_action(), both.rules};
  auto made = MakeReady(Share(std::move(both)), nullptr);
  auto made_turned = MakeReady(Share(std::move(turned)), nullptr);
  // Both together have too many ranges, so the change is made in one step.
  if (!made || !made_turned) return {};
  return {*std::move(made), *std::move(made_turned)};
}

Status Enforcer::RestorePolicy(uint32_t number, Slot& slot, std::shared_ptr<const Egress> before,
                               const Status& why) {
  if (slot.egress == before) return why;
  const Status back = ChangeElements(number, slot, before.get(), false);
  if (back) {
    slot.egress = std::move(before);
  } else {
    LogLine(
        LogLevel::kError,
        "a policy change failed and could not be undone; the sandbox keeps an intermediate policy")
        .Add("sandbox", slot.sandbox)
        .Add(back.error());
  }
  return why;
}

// Changes the slot's elements to those of another policy. `leaves`: its network membership is
// removed too.
Status Enforcer::ChangeElements(uint32_t number, const Slot& slot, const Egress* after,
                                bool leaves) {
  const uint32_t instance = config_.instance;
  const bool is_member = leaves && slot.network_number != 0;
  const auto commit = [&](bool restore) {
    NftTransaction transaction(TableName(instance));
    if (restore) {
      ChangePolicyElements(transaction, instance, number, nullptr, slot.egress.get());
      if (is_member) AddMember(transaction, instance, number, slot.network_number);
    }
    ChangePolicyElements(transaction, instance, number, slot.egress.get(), after);
    if (is_member) DeleteMember(transaction, instance, number, slot.network_number);
    return transaction.empty() ? Status() : Commit(transaction);
  };
  Status done = commit(false);
  // Another program has removed an element, which makes all other deletions fail. All elements are
  // added first then, in the same transaction.
  if (!done && done.error().error_number() == ENOENT) done = commit(true);
  return done;
}

void Enforcer::ForgetLearned(uint32_t number, const std::vector<LearnedKey>& keys) {
  if (keys.empty()) return;
  NftTransaction all(TableName(config_.instance));
  for (const LearnedKey& key : keys) DeleteLearned(all, config_.instance, number, key);
  if (Commit(all)) return;
  // Retried one by one, because one expired element makes the whole transaction fail.
  for (const LearnedKey& key : keys) {
    NftTransaction transaction(TableName(config_.instance));
    DeleteLearned(transaction, config_.instance, number, key);
    (void)Commit(transaction);
  }
}

Status Enforcer::Release(uint32_t number) {
  const auto found = slots_.find(number);
  if (found == slots_.end()) return {};
  Slot& slot = found->second;
  std::vector<LearnedKey> keys;
  for (const auto& [key, entry] : slot.learned.entries()) keys.push_back(key);
  ForgetLearned(number, keys);
  Status done = ChangeElements(number, slot, nullptr, true);
  if (!slot.network.empty()) {
    if (!slot.hostname.empty()) networks_.Leave(slot.network, slot.hostname, number);
    networks_.Leave(slot.network, slot.sandbox, number);
  }
  slot.network.clear();
  // The rest is remembered for the next attempt.
  if (!done) return done;
  slots_.erase(found);
  return {};
}

void Enforcer::AddSlotAnew(NftTransaction& transaction, uint32_t number) const {
  const uint32_t instance = config_.instance;
  AddDeniedElement(transaction, instance, number);
  const auto found = slots_.find(number);
  if (found == slots_.end()) return;
  const Slot& slot = found->second;
  ChangePolicyElements(transaction, instance, number, nullptr, slot.egress.get());
  if (slot.network_number != 0) AddMember(transaction, instance, number, slot.network_number);
  const int64_t now = clock_.BootMicros();
  for (const auto& [key, entry] : slot.learned.entries()) {
    const int64_t seconds = (entry.expires_us - now) / 1'000'000;
    if (seconds > 0) {
      AddLearned(transaction, instance, number, key, static_cast<uint32_t>(seconds));
    }
  }
}

Status Enforcer::Recover(const std::vector<LiveSlot>& live) {
  slots_.clear();
  networks_ = {};
  const std::string table = TableName(config_.instance);
  std::vector<std::pair<uint32_t, Slot*>> policed;
  for (const LiveSlot& one : live) {
    // An earlier daemon accepted the request and this one does not, for instance after an upgrade.
    // The slot gets a policy that denies everything.
    auto made = Make(one.request);
    if (!made) {
      SlotRequest denied;
      denied.sandbox = one.request.sandbox;
      denied.tenant = one.request.tenant;
      denied.policy = Share({});
      made = Make(denied);
    }
    ATOLL_ASSIGN(Slot slot, std::move(made));
    JoinNetwork(slot, one.slot);
    Slot& kept = slots_.insert_or_assign(one.slot, std::move(slot)).first->second;
    policed.emplace_back(one.slot, &kept);
  }
  // Links stay in the policed set while their addresses are restored, so that too little is allowed
  // in between.
  auto transaction = std::make_unique<NftTransaction>(table);
  FlushPolicySets(*transaction);
  for (const auto& [number, slot] : policed) {
    AddDeniedElement(*transaction, config_.instance, number);
    AddPolicyFlags(*transaction, config_.instance, number, slot->egress.get());
  }
  for (const auto& [number, slot] : policed) {
    AddPolicyRanges(*transaction, config_.instance, number, slot->egress.get());
    if (slot->network_number != 0) {
      AddMember(*transaction, config_.instance, number, slot->network_number);
    }
    if (!transaction->full()) continue;
    ATOLL_TRY(Commit(*transaction));
    transaction = std::make_unique<NftTransaction>(table);
  }
  ATOLL_TRY(ListDenied(nfnetlink_, config_.instance, [&](uint32_t number, uint64_t) {
    if (!slots_.contains(number)) DeleteDeniedElement(*transaction, config_.instance, number);
  }));
  if (!transaction->empty()) ATOLL_TRY(Commit(*transaction));
  return AdoptLearned();
}

Status Enforcer::AdoptLearned() {
  const int64_t now = clock_.BootMicros();
  std::vector<std::pair<uint32_t, LearnedKey>> dead;
  ATOLL_TRY(ListLearned(
      nfnetlink_, config_.instance, [&](uint32_t number, const LearnedKey& key, int64_t left_us) {
        const auto found = slots_.find(number);
        if (found == slots_.end() || !found->second.egress ||
            found->second.egress->default_action() == Action::kAllow) {
          dead.emplace_back(number, key);
          return;
        }
        if (const auto gone = found->second.learned.Add(key, {{}, now + left_us})) {
          dead.emplace_back(number, *gone);
        }
      }));
  for (const auto& [number, key] : dead) ForgetLearned(number, {key});
  return {};
}

SharedPolicy Enforcer::PolicyOf(uint32_t number) const {
  const auto found = slots_.find(number);
  return found == slots_.end() ? nullptr : found->second.policy;
}

const Denials* Enforcer::DenialsOf(uint32_t number) const {
  const auto found = slots_.find(number);
  return found == slots_.end() ? nullptr : &found->second.denials;
}

std::vector<LearnedName> Enforcer::LearnedBy(uint32_t number) const {
  std::vector<LearnedName> names;
  const auto found = slots_.find(number);
  if (found == slots_.end()) return names;
  const int64_t now = clock_.BootMicros();
  for (const auto& [key, entry] : found->second.learned.entries()) {
    if (entry.expires_us <= now) continue;
    LearnedName name{entry.name, key.address.ToString(), {}, 0, 0};
    if (key.port) {
      name.protocol = key.port->transport == Transport::kTcp ? "tcp" : "udp";
      name.port = key.port->port;
    }
    name.expires_in_seconds = (entry.expires_us - now) / 1'000'000;
    names.push_back(std::move(name));
  }
  return names;
}

std::function<bool(const Flow&)> Enforcer::JudgeOfFlows(uint32_t number) const {
  const auto found = slots_.find(number);
  if (found == slots_.end() || !found->second.egress) return JudgeOfOldFlows(number);
  // Addresses count even if they are learned after this call. The judgement may run late, and must
  // not cut a flow that a name has opened meanwhile.
  return [egress = found->second.egress, learned = found->second.learned.keys(),
          guarded = config_.guarded](const Flow& flow) {
    if (IsJudgedElsewhere(flow)) return false;
    const PortKey port = PortOf(flow);
    if (const auto ends = EndsByAddress(egress.get(), guarded, flow, port)) return *ends;
    if (learned->Has({flow.destination, port})) return false;
    if (flow.port == kDnsOverTlsPort) return true;
    if (egress->has_names() && IsWebPort(flow.port)) return true;
    if (learned->Has({flow.destination, PortKey{port.transport, 0}})) return false;
    if (learned->Has({flow.destination, std::nullopt})) return false;
    return egress->default_action() == Action::kDeny;
  };
}

std::function<bool(const Flow&)> Enforcer::JudgeOfOldFlows(uint32_t number) const {
  const auto found = slots_.find(number);
  if (found == slots_.end()) return [](const Flow&) { return false; };
  return [egress = found->second.egress, guarded = config_.guarded](const Flow& flow) {
    return !IsJudgedElsewhere(flow) &&
           EndsByAddress(egress.get(), guarded, flow, PortOf(flow)).value_or(false);
  };
}

const Enforcer::Slot* Enforcer::Find(std::string_view source, uint32_t* number) const {
  const auto slot = SlotOfAddress(config_.instance,
                                  {reinterpret_cast<const uint8_t*>(source.data()), source.size()});
  if (!slot) return nullptr;
  *number = *slot;
  const auto found = slots_.find(*slot);
  return found == slots_.end() ? nullptr : &found->second;
}

void Enforcer::Deny(Slot& slot, Denial denial) {
  denial.time_ms = clock_.UnixMillis();
  if (slot.denials.Add(denial, clock_.BootMicros()) && on_denial_) {
    on_denial_(slot.sandbox, denial);
  }
}

void Enforcer::Deny(std::string_view source, Denial denial) {
  uint32_t number = 0;
  if (Slot* slot = Find(source, &number); slot != nullptr) Deny(*slot, std::move(denial));
}

void Enforcer::OnPacket(const LoggedPacket& packet) {
  const auto number = SlotOfIfindex(config_.instance, packet.ifindex);
  if (!number) return;
  const auto found = slots_.find(*number);
  if (found == slots_.end()) return;
  Denial denial;
  denial.hostname = found->second.learned.NameOf(packet.destination);
  denial.address = packet.destination.ToString();
  denial.port = packet.port;
  denial.protocol = ProtocolName(packet.protocol);
  denial.reason = found->second.egress ? "policy" : "guarded address";
  denial.by_rules = true;
  Deny(found->second, std::move(denial));
}

}  // namespace atl::netpolicy
