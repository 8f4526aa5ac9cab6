// Divides a shared limit among sources, so that no number of greedy sources takes all of it.
//
// Thread rule: values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace atl::netpolicy {

// Returns how many units of a shared limit one source may hold while `used` of `limit` are taken:
// an eighth of what is left, and at least one while any is left. Because each share shrinks as the
// limit fills, something is left for the next source. A fixed limit for each source would let a few
// of them take everything. (Dynamic thresholds: Choudhury and Hahne, 1998.)
constexpr size_t FairShare(size_t limit, size_t used) {
  if (used >= limit) return 0;
  return std::max<size_t>(1, (limit - used) / 8);
}

// Counts how much of `limit` each source holds.
class FairShares {
 public:
  explicit FairShares(size_t limit) : limit_(limit) {}

  // Takes one unit for `source`. Returns false if the source already holds its share.
  bool Take(const std::string& source) {
    const auto held = held_.find(source);
    if ((held == held_.end() ? 0 : held->second) >= FairShare(limit_, used_)) return false;
    ++held_[source];
    ++used_;
    return true;
  }
  // Returns one unit. `source` must hold at least one.
  void Give(const std::string& source) {
    const auto held = held_.find(source);
    if (--held->second == 0) held_.erase(held);
    --used_;
  }
  void Clear() {
    held_.clear();
    used_ = 0;
  }

 private:
  const size_t limit_;
  size_t used_ = 0;
  std::unordered_map<std::string, size_t> held_;
};

}  // namespace atl::netpolicy
