// JSON as text. The library's parser and its writer are templates that cost a unit of the compiler
// a second each, so they stand in one; and what is true of every stranger's text, that it may nest
// without end, is asked there before a parser sees it.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl {

// Deeper is nothing of ours, and the library's writer recurses.
inline constexpr size_t kMaxJsonLevels = 32;
// Of policies and vaults.
inline constexpr size_t kMaxRuleLevels = 16;

// kInvalidArgument, without a byte of a text that may be secret: not JSON at which byte, a number
// out of range, or brackets in more than `most_levels` levels. `at`, if there is one, is where,
// from 0; 0 where that is not known.
Result<nlohmann::json> ParseJson(std::string_view text, size_t most_levels = kMaxJsonLevels,
                                 size_t* at = nullptr);
// Null if it is not JSON, or nests deeper than a thousand levels: for those who only ask what it
// is.
nlohmann::json JsonOrNull(std::string_view text);

// On one line. What is not UTF-8 is replaced by U+FFFD.
std::string JsonText(const nlohmann::json& value);
// On several, with nothing that could drive a terminal.
std::string PrettyJson(const nlohmann::json& value);
// As JsonText; not of its name, because a list in braces could be either.
std::string OrderedJsonText(const nlohmann::ordered_json& value);

}  // namespace atl
