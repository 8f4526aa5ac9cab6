#include "netpolicy/proxy_judge.h"

#include <algorithm>
#include <utility>

#include "netpolicy/addresses.h"
#include "netpolicy/dns_message.h"

namespace atl::netpolicy {

bool ProxyJudge::Allows(std::string_view source, std::string_view name, uint16_t port) {
  const auto egress = enforcer_.EgressOf(source);
  if (!egress || !egress->JudgeName(name).Allows({Transport::kTcp, port})) return false;
  // It is going to be resolved: the same as for a question.
  const auto dots = static_cast<size_t>(std::count(name.begin(), name.end(), '.'));
  return egress->default_action() == Action::kAllow ||
         (name.size() <= kPolicedNameBytes && dots < kPolicedNameLabels);
}

bool ProxyJudge::AllowsAddress(std::string_view source, const Endpoint& original) {
  return enforcer_.AllowsUnnamed(source, original.ip(), original.port());
}

bool ProxyJudge::Reaches(std::string_view source, const Endpoint& server) {
  return !enforcer_.Reachable(source, server.port(), {server.ip()}).empty();
}

void ProxyJudge::Denied(std::string_view source, const Endpoint& original, std::string_view name,
                        const char* reason) {
  Denial denial;
  denial.hostname = std::string(name);
  denial.address = original.ip().ToString();
  denial.port = original.port();
  denial.protocol = "tcp";
  denial.reason = reason;
  enforcer_.Deny(source, std::move(denial));
}

ProxyGate::Id ProxyJudge::Resolve(std::string_view source, std::string_view name, uint16_t port,
                                  OnResolved done) {
  const Id id = next_id_++;
  lookups_[id] = Lookup{std::string(source), port, std::move(done), {}, 2, {}};
  constexpr uint16_t kTypes[] = {kDnsTypeA, kDnsTypeAaaa};
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    const DnsResolver::Id asked = names_.Resolve(
        name, kTypes[i],
        [this, id](const std::vector<IpAddress>& addresses, uint32_t) { Answered(id, addresses); });
    // An answer out of the cache comes at once, and the second one ends the lookup.
    const auto lookup = lookups_.find(id);
    if (lookup == lookups_.end()) break;
    lookup->second.asked[i] = asked;
  }
  return id;
}

void ProxyJudge::Answered(Id id, const std::vector<IpAddress>& addresses) {
  const auto found = lookups_.find(id);
  if (found == lookups_.end()) return;
  Lookup& lookup = found->second;
  lookup.addresses.insert(lookup.addresses.end(), addresses.begin(), addresses.end());
  if (--lookup.open > 0) return;
  const Lookup whole = std::move(lookup);
  lookups_.erase(found);
  whole.done(enforcer_.Reachable(whole.source, whole.port, whole.addresses));
}

void ProxyJudge::CancelResolve(Id id) {
  const auto found = lookups_.find(id);
  if (found == lookups_.end()) return;
  for (const DnsResolver::Id asked : found->second.asked) {
    if (asked != 0) names_.CancelResolve(asked);
  }
  lookups_.erase(found);
}

}  // namespace atl::netpolicy
