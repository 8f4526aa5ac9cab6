#include "runtime/wire/diff.h"

#include <charconv>

namespace atl::wire {

std::optional<DiffEntry> DiffEntry::Decode(std::string_view record) {
  constexpr size_t kSize = 4;  // offset of the size
  constexpr std::string_view kKinds = "AMD", kTypes = "fdlpscb";
  constexpr size_t kMaxPath = 4095;
  DiffEntry entry;
  if (record.size() < kSize || record[1] != ' ' || record[3] != ' ' ||
      kKinds.find(record[0]) == std::string_view::npos ||
      kTypes.find(record[2]) == std::string_view::npos) {
    return std::nullopt;
  }
  entry.kind = record[0];
  entry.type = record[2];
  record.remove_prefix(kSize);
  const auto [rest, error] =
      std::from_chars(record.data(), record.data() + record.size(), entry.size);
  if (error != std::errc()) return std::nullopt;
  record.remove_prefix(static_cast<size_t>(rest - record.data()));
  if (record.size() < 2 || record.size() > kMaxPath + 1 || record[0] != ' ') return std::nullopt;
  entry.path = record.substr(1);
  return entry;
}

}  // namespace atl::wire
