#include "runtime/base/json_text.h"

#include <nlohmann/json.hpp>

namespace atl {
namespace {

using nlohmann::json;

// Returns true if brackets outside of strings are nested deeper than `most`. The text need not be
// JSON. A callback of the parser for each value would take three times as long.
bool NestsDeeper(std::string_view text, size_t most) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > most) return true;
    } else if (!quoted && (c == ']' || c == '}')) {
      if (depth > 0) --depth;
    }
  }
  return false;
}

template <typename Value>
std::string OnOneLine(const Value& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

}  // namespace

Result<json> ParseJson(std::string_view text, size_t most_levels, size_t* at) {
  size_t nowhere = 0;
  size_t& where = at == nullptr ? nowhere : *at;
  where = 0;
  if (NestsDeeper(text, most_levels)) {
    return Fail(Code::kInvalidArgument,
                "nested deeper than " + std::to_string(most_levels) + " levels");
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    // The library's message repeats bytes of the input.
    where = error.byte == 0 ? 0 : error.byte - 1;
    return Fail(Code::kInvalidArgument, "not JSON at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    // This message repeats the number, however long it is.
    return Fail(Code::kInvalidArgument, "a number is out of range");
  }
}

json JsonOrNull(std::string_view text) {
  constexpr size_t kMostLevels = 1000;
  return ParseJson(text, kMostLevels).value_or(json());
}

std::string JsonText(const json& value) {
  return OnOneLine(value);
}

std::string PrettyJson(const json& value) {
  return value.dump(2, ' ', true, json::error_handler_t::replace);
}

std::string OrderedJsonText(const nlohmann::ordered_json& value) {
  return OnOneLine(value);
}

}  // namespace atl
