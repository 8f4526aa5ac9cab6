// Base64 (RFC 4648), with the standard alphabet of section 4 unless said otherwise.
//
// Thread rule: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atl {

// Encodes with padding.
std::string EncodeBase64(std::string_view bytes);
// Encodes with the alphabet for URLs (section 5), without padding.
std::string EncodeBase64Url(std::string_view bytes);
// Decodes with or without padding. Empty for wrong padding, for any other character including white
// space, and for leftover bits that are not zero. Therefore only one text, with or without its
// padding, decodes to given bytes.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace atl
