// A vault and the egress policy of its sandbox: a credential is bound only to hosts that the
// sandbox may reach.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

// Whether the policy allows connections by TCP to that name, lower case and without a dot at the
// end, at that port. For netpolicy: Egress::JudgeName(name).Allows({Transport::kTcp, port}).
using PolicyVerdict = std::function<bool(std::string_view name, uint16_t port)>;

// kInvalidArgument: the first binding and its host that the policy does not allow, at the port of
// one of its schemes. For a wildcard a name below it is asked about. An empty function stands for
// no policy, with which no binding can be. That the default allows a host is enough; whether to
// warn of such a policy, with which a sandbox reaches everything else as well, is the caller's
// matter. To be asked when the vault changes and before the policy does.
Status CheckCovered(const Vault& vault, const PolicyVerdict& allows);

}  // namespace atl::vault
