// Converts between JSON and text. The library's parser and writer are templates that cost a second
// of compile time in each unit, so they are instantiated in one place. Untrusted text is checked
// for nesting before the parser sees it.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl {

// Deepest nesting. Nothing here nests deeper, and the library's writer recurses.
inline constexpr size_t kMaxJsonLevels = 32;
// Deepest nesting of policies and vaults.
inline constexpr size_t kMaxRuleLevels = 16;

// Parses JSON. kInvalidArgument: not JSON (with the byte), a number out of range, or brackets
// nested deeper than `most_levels`. The error repeats no byte of the text, which may be secret.
// `at`, unless null, gets the offset of the error, or 0 if it is unknown.
Result<nlohmann::json> ParseJson(std::string_view text, size_t most_levels = kMaxJsonLevels,
                                 size_t* at = nullptr);
// Returns null if the text is not JSON, or nested deeper than a thousand levels. For callers that
// only test what a text is.
nlohmann::json JsonOrNull(std::string_view text);

enum class ObjectText {
  kNone,     // the text does not begin with an object
  kWhole,    // the text is an object
  kTrailing  // bytes that are no white space follow the object
};
// Calls `visit` with each member of the object at the start of the text, in the order of the text.
// A name may come several times. Arrays have their scalars, and null in place of others; objects
// come empty. The members mean nothing if it returns kNone. For readers that
// must see a text as a lenient parser does.
ObjectText VisitMembers(
    std::string_view text,
    const std::function<void(const std::string& name, nlohmann::json value)>& visit);

// Returns one line. Invalid UTF-8 is replaced by U+FFFD.
std::string JsonText(const nlohmann::json& value);
// Returns indented lines, without anything that could control a terminal.
std::string PrettyJson(const nlohmann::json& value);
// Like JsonText. It has another name because a list in braces could be either type.
std::string OrderedJsonText(const nlohmann::ordered_json& value);

}  // namespace atl
