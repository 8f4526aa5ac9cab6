// Parses numbers in the kernel's text files. A number that is missing or damaged is no number,
// never 0: zero usage is a fact, and a file that cannot be understood is a fault.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace atl::cgroup {

// Returns the number at the beginning of the text. Nothing if there is none, if it does not fit, or
// if it ends in something other than white space.
inline std::optional<uint64_t> LeadingNumber(std::string_view text) {
  uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc()) return std::nullopt;
  if (end != last && *end != ' ' && *end != '\t' && *end != '\n') return std::nullopt;
  return value;
}

// Returns the number after "key " in a flat keyed file. Nothing if the key or its number is
// missing.
inline std::optional<uint64_t> KeyedNumber(std::string_view text, std::string_view key) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return LeadingNumber(line.substr(key.size() + 1));
    }
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace atl::cgroup
