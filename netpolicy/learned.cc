#include "netpolicy/learned.h"

#include <algorithm>
#include <utility>

namespace atl::netpolicy {

bool Learned::IsDue(const LearnedKey& key, int64_t needed_us) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || found->second.expires_us < needed_us;
}

std::optional<LearnedKey> Learned::Add(const LearnedKey& key, Entry entry) {
  std::optional<LearnedKey> gone;
  if (entries_.size() >= kMost && !entries_.contains(key)) {
    const auto first = std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.expires_us < b.second.expires_us; });
    gone = first->first;
    entries_.erase(first);
  }
  entries_.insert_or_assign(key, std::move(entry));
  return gone;
}

std::string Learned::NameOf(const IpAddress& address) const {
  const auto first = entries_.lower_bound(LearnedKey{address, std::nullopt});
  if (first == entries_.end() || first->first.address != address) return {};
  return first->second.name;
}

}  // namespace atl::netpolicy
