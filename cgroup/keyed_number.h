// Parses numbers in the kernel's cgroup files.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace atl::cgroup {

// Returns the number at the beginning of the text, 0 if there is none.
inline uint64_t LeadingNumber(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Returns the number after "key " in a flat keyed file, 0 if the key is missing.
inline uint64_t KeyedNumber(std::string_view text, std::string_view key) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return LeadingNumber(line.substr(key.size() + 1));
    }
    at = end + 1;
  }
  return 0;
}

}  // namespace atl::cgroup
