// Bodies about keys: making one, and rotating one.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/api/gate/api_error.h"
#include "runtime/tenants/directory.h"

namespace atl::api {

inline constexpr int64_t kMostGraceSeconds = 30LL * 24 * 3600;

// Parses {"role", "name"?, "expiresInSeconds"?, "routes"?, "images"?, "max"?}. `role` may be left
// out for a key of a tenant: developer. expiresInSeconds 0 means never; left out, 90 days.
Parsed<tenants::KeyRequest> ParseKeyRequest(const std::string& text, const std::string& tenant);

// Parses {"grace"?: "24h"}: how long the old key works beside the new one. Returns milliseconds; an
// empty body means 0. The units are s, m, h and d.
Parsed<int64_t> ParseGrace(const std::string& text);

}  // namespace atl::api
