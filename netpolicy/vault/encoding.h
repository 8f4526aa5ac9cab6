// How a value is written inside of other texts.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace atl::vault {

// The byte that "%XX" at `at` stands for; -1 if there is no escape.
int EscapedByte(std::string_view text, size_t at);

// Every byte but letters, digits and "-._~" as %XX: no part of a URL ends at it, in a path or a
// query.
std::string UrlEncoded(std::string_view text);
// The same for application/x-www-form-urlencoded, where a blank is '+'.
std::string FormEncoded(std::string_view text);

// As it stands between the quotes of a JSON string. kAscii writes all above 0x7e as \uXXXX, as
// Python does; kHtml leaves them, and writes <, >, & and the line separators so, as Go does. Bytes
// that are no UTF-8 stay.
enum class JsonStyle { kAscii, kHtml };
std::string JsonEscaped(std::string_view text, JsonStyle style);

}  // namespace atl::vault
