// How deep a stranger's JSON nests, found out before a parser sees it: parsers recurse, and one's
// own callback for each value takes three times as long as this.
//
// Thread rule: a pure function.
#pragma once

#include <cstddef>
#include <string_view>

namespace atl {

// Whether brackets, those in strings aside, nest deeper than `most`. The text need not be JSON.
constexpr bool NestsDeeper(std::string_view text, size_t most) {
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

}  // namespace atl
