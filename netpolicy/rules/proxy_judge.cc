#include "netpolicy/rules/proxy_judge.h"

#include <algorithm>
#include <utility>

#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {

bool ProxyJudge::Allows(std::string_view source, std::string_view name, uint16_t port) {
  const auto egress = enforcer_.EgressOf(source);
  if (!egress || !egress->JudgeName(name).Allows({Transport::kTcp, port})) return false;
  // The name will be resolved, so the limits for questions apply.
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
  const auto egress = enforcer_.EgressOf(source);
  const bool under_policy = egress && egress->default_action() == Action::kDeny;
  return names_.Resolve(source, name, under_policy,
                        [this, source = std::string(source), port,
                         done = std::move(done)](const std::vector<IpAddress>& addresses) {
                          done(enforcer_.Reachable(source, port, addresses));
                        });
}

void ProxyJudge::CancelResolve(Id id) {
  names_.CancelResolve(id);
}

}  // namespace atl::netpolicy
