// Escapes values for use within other texts.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl::vault {

// Returns the byte that "%XX" at `at` stands for, or -1 if there is no escape.
int EscapedByte(std::string_view text, size_t at);

// Escapes every byte except letters, digits and "-._~" as %XX, so that no part of a URL ends at it,
// in a path or a query.
std::string UrlEncoded(std::string_view text);
// Like UrlEncoded, for application/x-www-form-urlencoded, where a blank is '+'.
std::string FormEncoded(std::string_view text);

// Escapes a text for the inside of a JSON string. kAscii writes everything above 0x7e as \uXXXX,
// like Python. kHtml keeps it, and writes <, >, & and the line separators as \uXXXX, like Go.
// Invalid UTF-8 is kept.
enum class JsonStyle { kAscii, kHtml };
std::string JsonEscaped(std::string_view text, JsonStyle style);

}  // namespace atl::vault
