// How much of what all sources share one of them may hold.
//
// Thread rule: pure.
#pragma once

#include <algorithm>
#include <cstddef>

namespace atl::netpolicy {

// With `used` of `limit` taken, by whomever: an eighth of what is left, and one as long as there is
// any. However many sources take all they get, something is left for the next one; a fixed limit
// for each would let a few take the whole. (Dynamic thresholds: Choudhury and Hahne, 1998.)
constexpr size_t FairShare(size_t limit, size_t used) {
  if (used >= limit) return 0;
  return std::max<size_t>(1, (limit - used) / 8);
}

}  // namespace atl::netpolicy
