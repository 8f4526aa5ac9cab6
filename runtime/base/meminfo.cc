#include "runtime/base/meminfo.h"

#include <algorithm>
#include <charconv>

namespace atl {

std::optional<uint64_t> MeminfoBytes(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t kib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), kib);
  return error == std::errc() ? std::optional(kib * 1024) : std::nullopt;
}

}  // namespace atl
