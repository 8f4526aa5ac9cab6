// Enforcer: what it answers to the name server and the proxy.
#include <algorithm>
#include <utility>

#include "netpolicy/address/addresses.h"
#include "netpolicy/address/ports.h"
#include "netpolicy/dns/dns_message.h"
#include "netpolicy/link/own_address.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/rules/enforcer.h"

namespace atl::netpolicy {
namespace {

// How long an address stays open after its TTL, and the bounds of that time. Programs keep an
// address a little longer than they should, and a connection takes a moment to begin. An unused
// address lives no longer than this.
constexpr uint32_t kGraceSeconds = 60, kShortestSeconds = 60, kLongestSeconds = 360;

// How long verdicts on addresses are cached. Asking the kernel for its own addresses takes some
// microseconds each, an answer may hold 256 addresses, and a sandbox may ask for it thousands of
// times a second.
constexpr int64_t kGuardsKeptUs = 1'000'000;
constexpr size_t kMostGuards = 16384;

// Returns the elements for the addresses of a name. Ports 80 and 443 belong to the proxy; for
// traffic on them that the proxy does not see (UDP), names open nothing.
std::vector<LearnedKey> KeysFor(const NameScope& scope, const std::vector<IpAddress>& addresses) {
  std::vector<LearnedKey> keys;
  for (const IpAddress& address : addresses) {
    if (scope.any_port) {
      keys.push_back({address, std::nullopt});
      continue;
    }
    for (const PortKey& port : scope.ports) {
      if (!IsWebPort(port.port)) keys.push_back({address, port});
    }
  }
  return keys;
}

}  // namespace

Enforcer::Guard Enforcer::GuardOf(const IpAddress& address) const {
  const int64_t now = clock_.BootMicros();
  if (now - guards_since_us_ > kGuardsKeptUs || guards_.size() >= kMostGuards) {
    guards_.clear();
    guards_since_us_ = now;
  }
  const auto [known, is_new] = guards_.try_emplace(address, Guard::kNone);
  if (!is_new) return known->second;
  if (AnyContains(NeverReachable(), address)) {
    known->second = Guard::kNever;
  } else if (AnyContains(config_.guarded, address) || IsOwnAddress(address)) {
    known->second = Guard::kUnlessNamed;
  }
  return known->second;
}

bool Enforcer::IsBarred(const Slot& slot, const IpAddress& address) const {
  const Guard guard = GuardOf(address);
  if (guard != Guard::kUnlessNamed) return guard == Guard::kNever;
  return !slot.egress || !slot.egress->NamesAddress(address);
}

// Connections of the proxy do not pass the rules for a sandbox's own packets. A guarded address
// that a rule names for one port must therefore stay closed at all others.
bool Enforcer::MayDial(const Slot& slot, const IpAddress& address, uint16_t port) const {
  if (!slot.egress) return false;
  const Guard guard = GuardOf(address);
  if (guard == Guard::kNever) return false;
  const auto said = slot.egress->JudgeAddress(address, {Transport::kTcp, port});
  if (said == RangeAction::kDeny) return false;
  if (said == RangeAction::kNamed) return true;
  return guard == Guard::kNone;
}

std::shared_ptr<const Egress> Enforcer::EgressOf(std::string_view source) const {
  uint32_t number = 0;
  const Slot* slot = Find(source, &number);
  return slot == nullptr ? nullptr : slot->egress;
}

std::vector<IpAddress> Enforcer::Reachable(std::string_view source, uint16_t port,
                                           const std::vector<IpAddress>& addresses) const {
  uint32_t number = 0;
  const Slot* slot = Find(source, &number);
  std::vector<IpAddress> reachable;
  if (slot == nullptr || !slot->egress) return reachable;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(reachable),
               [&](const IpAddress& address) { return MayDial(*slot, address, port); });
  return reachable;
}

bool Enforcer::AllowsUnnamed(std::string_view source, const IpAddress& address,
                             uint16_t port) const {
  uint32_t number = 0;
  const Slot* slot = Find(source, &number);
  if (slot == nullptr || !MayDial(*slot, address, port)) return false;
  if (slot->egress->default_action() == Action::kAllow) return true;
  const auto learned = slot->learned.entries().find({address, std::nullopt});
  return learned != slot->learned.entries().end() &&
         learned->second.expires_us > clock_.BootMicros();
}

DnsGate::Judgement Enforcer::Judge(std::string_view source, std::string_view name, uint16_t type) {
  uint32_t number = 0;
  Slot* slot = Find(source, &number);
  if (slot == nullptr) {
    // number 0: a process of the host asks, not a sandbox. A slot that is not claimed may ask
    // nothing.
    return {number == 0 ? Verdict::kForward : Verdict::kNxDomain, {}, false};
  }
  if (!slot->network.empty()) {
    if (const auto* members = networks_.Find(slot->network, name)) {
      Judgement local{Verdict::kLocal, {}, false};
      for (const uint32_t member : *members) {
        if (type == kDnsTypeA) {
          local.addresses.push_back(IpAddress::FromBytes(SlotIpv4(config_.instance, member)));
        } else if (type == kDnsTypeAaaa) {
          local.addresses.push_back(IpAddress::FromBytes(SlotIpv6(config_.instance, member)));
        }
      }
      return local;
    }
  }
  if (!slot->egress) return {};
  if (slot->egress->JudgeName(name).allowed()) {
    return {Verdict::kForward, {}, slot->egress->default_action() == Action::kDeny};
  }
  Deny(*slot, {.hostname = std::string(name), .protocol = "dns", .reason = "policy"});
  return {Verdict::kNxDomain, {}, true};
}

bool Enforcer::Learn(std::string_view source, std::string_view name,
                     const std::vector<std::string>& aliases,
                     const std::vector<IpAddress>& addresses, uint32_t ttl_seconds) {
  uint32_t number = 0;
  Slot* slot = Find(source, &number);
  if (slot == nullptr) return number == 0;
  const auto barred = std::find_if(addresses.begin(), addresses.end(),
                                   [&](const IpAddress& a) { return IsBarred(*slot, a); });
  if (barred != addresses.end()) {
    Deny(*slot, {.hostname = std::string(name),
                 .address = barred->ToString(),
                 .protocol = "dns",
                 .reason = "private answer"});
    return false;
  }
  if (!slot->egress) return true;
  const auto denied = std::find_if(aliases.begin(), aliases.end(), [&](const std::string& alias) {
    return slot->egress->DeniesName(alias);
  });
  if (denied != aliases.end()) {
    Deny(*slot, {.hostname = *denied, .protocol = "dns", .reason = "alias"});
    return false;
  }
  if (slot->egress->default_action() == Action::kAllow) return true;
  const NameScope scope = slot->egress->JudgeName(name);
  std::vector<LearnedKey> keys = KeysFor(scope, addresses);
  // More keys than the limit would evict each other with every answer.
  if (keys.size() > Learned::kMost) keys.resize(Learned::kMost);
  return TellKernel(number, *slot, name, keys, ttl_seconds);
}

bool Enforcer::TellKernel(uint32_t number, Slot& slot, std::string_view name,
                          const std::vector<LearnedKey>& keys, uint32_t ttl_seconds) {
  const int64_t now = clock_.BootMicros();
  const uint32_t seconds = std::clamp(std::min(ttl_seconds, kLongestSeconds) + kGraceSeconds,
                                      kShortestSeconds, kLongestSeconds);
  const int64_t needed =
      now + int64_t{std::min(ttl_seconds, kLongestSeconds - kGraceSeconds)} * 1'000'000;
  std::vector<LearnedKey> due;
  for (const LearnedKey& key : keys) {
    if (slot.learned.IsDue(key, needed)) due.push_back(key);
  }
  if (due.empty()) return true;
  // Before Linux 6.12 an element's timeout cannot be changed, so it is deleted and added again.
  // Only elements that should exist are deleted, because a missing one makes the transaction fail.
  const auto commit = [&](bool replace) {
    NftTransaction transaction(TableName(config_.instance));
    for (const LearnedKey& key : due) {
      if (replace && slot.learned.Has(key)) {
        DeleteLearned(transaction, config_.instance, number, key);
      }
      AddLearned(transaction, config_.instance, number, key, seconds);
    }
    return Commit(transaction);
  };
  for (const LearnedKey& key : due) slot.learned.Expect(key);
  Status told = commit(true);
  if (!told && told.error().error_number() == ENOENT) {
    ForgetLearned(number, due);  // they expired meanwhile, so they are gone already
    told = commit(false);
  }
  if (!told) {
    // The kernel's state is unknown, so everything is removed: an element that is not remembered
    // here would never be removed.
    ForgetLearned(number, due);
    for (const LearnedKey& key : due) slot.learned.Remove(key);
    return false;
  }
  std::vector<LearnedKey> gone;
  for (const LearnedKey& key : due) {
    if (const auto one =
            slot.learned.Add(key, {std::string(name), now + int64_t{seconds} * 1'000'000})) {
      gone.push_back(*one);
    }
  }
  ForgetLearned(number, gone);
  return true;
}

}  // namespace atl::netpolicy
