// Checks a vault against the egress policy of its sandbox: a credential may be bound only to hosts
// that the sandbox may reach.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

// Returns true if the policy allows TCP connections to a name (lower case, no trailing dot) at a
// port. netpolicy passes Egress::JudgeName(name).Allows({Transport::kTcp, port}).
using PolicyVerdict = std::function<bool(std::string_view name, uint16_t port)>;

// kInvalidArgument: names the first binding and host that the policy does not allow at the port of
// one of its schemes. For a wildcard, a name below it is checked. An empty function means that the
// sandbox has no policy; then no binding is accepted. It is enough that the default action allows a
// host; warning about such an open policy is up to the caller. Call when the vault changes, and
// before the policy changes.
Status CheckCovered(const Vault& vault, const PolicyVerdict& allows);

}  // namespace atl::vault
