#include "netpolicy/rules/learned.h"

#include <utility>

namespace atl::netpolicy {

bool Learned::IsDue(const LearnedKey& key, int64_t needed_us) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || found->second.expires_us < needed_us;
}

std::optional<LearnedKey> Learned::Add(const LearnedKey& key, Entry entry) {
  std::optional<LearnedKey> gone;
  if (entries_.size() >= kMost && !entries_.contains(key)) {
    gone = by_expiry_.begin()->second;
    Remove(*gone);
  }
  Drop(key);
  by_expiry_.emplace(entry.expires_us, key);
  entries_.emplace(key, std::move(entry));
  keys_->Insert(key);
  return gone;
}

void Learned::Remove(const LearnedKey& key) {
  Drop(key);
  keys_->Erase(key);
}

void Learned::Drop(const LearnedKey& key) {
  const auto entry = entries_.extract(key);
  if (!entry.empty()) by_expiry_.erase({entry.mapped().expires_us, key});
}

std::string Learned::NameOf(const IpAddress& address) const {
  const auto first = entries_.lower_bound(LearnedKey{address, std::nullopt});
  if (first == entries_.end() || first->first.address != address) return {};
  return first->second.name;
}

}  // namespace atl::netpolicy
