// The body of POST /sandboxes.
#pragma once

#include <string>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::api {

// Of upstream's own; no client sets it.
inline constexpr char kLifecycleVariable[] = "OPENSANDBOX_LIFECYCLE";

struct CreateRequest {
  sandbox::Wanted wanted;
  // As the request wrote it, for the answer; the other is split into words if it was one line.
  std::vector<std::string> entrypoint;
};

// In upstream's order: form (422), then rules (400). What is known but not offered is 501, never
// ignored; what is not known is ignored, as upstream does.
Parsed<CreateRequest> ParseCreateRequest(const std::string& body);

// The body of POST /sandboxes/{id}/renew-expiration: Unix milliseconds.
Parsed<int64_t> ParseRenewRequest(const std::string& body);

}  // namespace atl::api
