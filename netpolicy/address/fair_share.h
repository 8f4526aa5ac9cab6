// How much of what all sources share one of them may hold.
//
// Thread rule: values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace atl::netpolicy {

// With `used` of `limit` taken, by whomever: an eighth of what is left, and one as long as there is
// any. However many sources take all they get, something is left for the next one; a fixed limit
// for each would let a few take the whole. (Dynamic thresholds: Choudhury and Hahne, 1998.)
constexpr size_t FairShare(size_t limit, size_t used) {
  if (used >= limit) return 0;
  return std::max<size_t>(1, (limit - used) / 8);
}

// Counts what each source holds of `limit`.
class FairShares {
 public:
  explicit FairShares(size_t limit) : limit_(limit) {}

  // False: it has its share.
  bool Take(const std::string& source) {
    const auto held = held_.find(source);
    if ((held == held_.end() ? 0 : held->second) >= FairShare(limit_, used_)) return false;
    ++held_[source];
    ++used_;
    return true;
  }
  // Back, one that it has taken.
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
