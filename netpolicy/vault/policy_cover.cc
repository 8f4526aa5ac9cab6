#include "netpolicy/vault/policy_cover.h"

#include <string>

namespace atl::vault {

Status CheckCovered(const Vault& vault, const PolicyVerdict& allows) {
  if (vault.bindings.empty()) return {};
  if (!allows) {
    return Fail(Code::kInvalidArgument, "credential vault bindings require an egress policy");
  }
  for (const Binding& binding : vault.bindings) {
    for (const std::string& host : binding.match.hosts) {
      const std::string name = host.starts_with("*.") ? "probe" + host.substr(1) : host;
      for (const Scheme scheme : binding.match.schemes) {
        if (allows(name, PortOf(scheme))) continue;
        return Fail(Code::kInvalidArgument, "binding \"" + binding.name + "\" host \"" + host +
                                                "\" is not allowed by the egress policy (" +
                                                SchemeName(scheme) + ")");
      }
    }
  }
  return {};
}

}  // namespace atl::vault
