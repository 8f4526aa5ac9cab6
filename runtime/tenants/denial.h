// Why a key was refused. Its holder gets one answer for all but kUnavailable.
#pragma once

#include <tl/expected.hpp>

#include "runtime/tenants/identity.h"

namespace atl::tenants {

enum class Denial {
  kUnknown,  // no key has this text
  kExpired,
  kRevoked,
  kTenantGone,   // its tenant is not in the file any more
  kUnavailable,  // the provider cannot be asked
};

using Authenticated = tl::expected<Identity, Denial>;

}  // namespace atl::tenants
