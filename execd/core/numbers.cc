#include "execd/core/numbers.h"

#include <algorithm>
#include <charconv>

namespace atl::execd {

std::optional<int64_t> ToNumber(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<int64_t> KeyNumber(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    // "oom_kill" must not match "oom_kill_disable".
    if (!line.starts_with(key) || line.size() == key.size()) continue;
    if (key.back() != ':' && line[key.size()] != ' ') continue;
    line.remove_prefix(key.size());
    const size_t start = line.find_first_of("0123456789");
    if (start == std::string_view::npos) continue;
    line.remove_prefix(start);
    return ToNumber(line.substr(0, line.find_first_of(" \t")));
  }
  return {};
}

}  // namespace atl::execd
