// Members of request objects, with errors that name the member. null counts as absent, as in Go.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "execd/http/json.h"
#include "runtime/base/result.h"

namespace atl::execd {

// The largest JSON body taken.
inline constexpr size_t kMaxJsonBody = 8 << 20;

// A string without NUL; empty if absent.
Result<std::string> TextMember(const JsonValue& object, std::string_view name);
// An integer in [low, high]; `absent` if absent.
Result<int64_t> IntegerMember(const JsonValue& object, std::string_view name, int64_t low,
                              int64_t high, int64_t absent);
// Empty or whitespace only: as if it were {}. Anything but an object is an error.
Result<JsonDocument> ParseObject(std::string body, bool may_be_empty);

}  // namespace atl::execd
