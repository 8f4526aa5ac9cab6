// The body of POST /sandboxes.
#pragma once

#include <string>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

// Reserved: upstream sets this variable itself, no client does.
inline constexpr char kLifecycleVariable[] = "OPENSANDBOX_LIFECYCLE";

struct CreateRequest {
  sandbox::Wanted wanted;
  // The entrypoint as the request wrote it, for the answer. `wanted` has it split into words if it
  // was one line.
  std::vector<std::string> entrypoint;
};

// Checks the form (422), then the rules (400), in upstream's order. Refuses known members that
// Atoll does not offer (501). Ignores unknown members, as upstream does.
Parsed<CreateRequest> ParseCreateRequest(const std::string& body);

// Parses the body of POST /sandboxes/{id}/renew-expiration. Returns Unix milliseconds.
Parsed<int64_t> ParseRenewRequest(const std::string& body);

}  // namespace atl::api
