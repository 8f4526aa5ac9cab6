// JSON to and from strangers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/http/message.h"

namespace atl::api {

http::Response JsonResponse(int status, const nlohmann::json& body);

// A request body. Not JSON, or nested deeper than any request of ours (the library's writer
// recurses), is refused with 422.
Parsed<nlohmann::json> ParseBody(const std::string& text);

// 2026-11-21T12:00:00Z, with microseconds only when they are not zero.
std::string FormatTime(int64_t unix_ms);
// RFC 3339 with 'T' or a space, fraction and offset optional (then UTC). False: not one.
bool ParseTime(std::string_view text, int64_t* unix_ms);

}  // namespace atl::api
