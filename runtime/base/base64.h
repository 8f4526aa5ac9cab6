// Base64 with the standard alphabet (RFC 4648, section 4).
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl {

// With padding.
std::string EncodeBase64(std::string_view bytes);
// Padding may be left out, but not be wrong. Nothing for any other character, white space included,
// and for bits that no byte is made of: every text but one for the same bytes is refused, with or
// without its padding.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace atl
