// Members of request objects. Errors name the member. null counts as absent, as in Go.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "execd/http/json.h"
#include "runtime/base/result.h"

namespace atl::execd {

// Limit on the size of a JSON body.
inline constexpr size_t kMaxJsonBody = 8 << 20;

// Returns a string without NUL, or empty if it is absent.
Result<std::string> TextMember(const JsonValue& object, std::string_view name);
// Returns an integer in [low, high], or `absent` if it is absent.
Result<int64_t> IntegerMember(const JsonValue& object, std::string_view name, int64_t low,
                              int64_t high, int64_t absent);
// Parses an object. With `may_be_empty`, an empty body or one of whitespace counts as {}. Anything
// but an object is an error.
Result<JsonDocument> ParseObject(std::string body, bool may_be_empty);

}  // namespace atl::execd
