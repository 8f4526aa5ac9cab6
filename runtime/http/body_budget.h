// The memory of the request bodies that a server collects (Exchange::ReadBody). Parties share it
// (runtime/base/fair_places.h): a party that stalls its bodies leaves room for the others. A party
// is what requests are authorised by (Exchange::SetAuthority). Internal to this folder.
//
// Thread rule: on the loop.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "runtime/base/fair_places.h"

namespace atl::http {

class BodyBudget {
 public:
  // Limit of a server. Bodies come to at most 4 MiB, and most are below one kilobyte.
  static constexpr size_t kMost = 64 << 20;
  // Bodies up to this size may take twice the limit, so that ordinary requests pass when large
  // bodies have taken all of it.
  static constexpr size_t kSmall = 64 << 10;

  explicit BodyBudget(size_t limit) : limit_(limit) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  // Takes `more` bytes for a body that has `held`. Returns false, and takes nothing, if there is no
  // room. The party "" may take all of the room.
  bool Take(const std::string& party, size_t held, size_t more) {
    const size_t limit = held + more <= kSmall ? 2 * limit_ : limit_;
    const auto found = taken_.find(party);
    const size_t own = found == taken_.end() ? 0 : found->second;
    if (!FairPlaces::Allows(limit, party, all_, own, more)) return false;
    if (more == 0) return true;
    taken_[party] += more;
    all_ += more;
    peak_ = std::max(peak_, all_);
    return true;
  }

  // Returns all bytes of a body. After a burst, gives the memory back to the kernel: the allocator
  // would keep it.
  void Return(const std::string& party, size_t held) {
    if (held == 0) return;
    const auto found = taken_.find(party);
    found->second -= held;
    if (found->second == 0) taken_.erase(found);
    all_ -= held;
    if (all_ != 0) return;
    if (peak_ >= kBurst) (void)malloc_trim(0);
    peak_ = 0;
  }

 private:
  static constexpr size_t kBurst = 16 << 20;

  const size_t limit_;
  std::map<std::string, size_t> taken_;  // keyed by party; no entry: nothing
  size_t all_ = 0;
  size_t peak_ = 0;  // the most since it was 0
};

}  // namespace atl::http
