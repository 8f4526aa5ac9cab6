// Base64 with the alphabet for URLs, without padding (RFC 7515, appendix C).
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl::tenants {

// Empty for padding, for any other character, and for leftover bits that are not zero.
std::optional<std::string> DecodeBase64Url(std::string_view text);

}  // namespace atl::tenants
