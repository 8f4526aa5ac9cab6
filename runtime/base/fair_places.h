// A bounded number of places that parties take, such as the tenants of a host. A party may have no
// more places than it leaves free, and one. So a party that comes later finds some, whatever the
// others do, and the bound still holds: a party alone gets half of the places, two get a third
// each. The party "" is the host itself, and may take every free place.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace atl {

class FairPlaces {
 public:
  // Given back when the last copy is gone, which may be after the end of the FairPlaces.
  using Place = std::shared_ptr<const void>;

  explicit FairPlaces(size_t limit) : limit_(limit) {}
  FairPlaces(const FairPlaces&) = delete;
  FairPlaces& operator=(const FairPlaces&) = delete;

  // Returns whether the party may take `more` of `limit` places. `all` of them are taken, `own` by
  // the party. For places that somebody else counts.
  static bool Allows(uint64_t limit, const std::string& party, uint64_t all, uint64_t own,
                     uint64_t more = 1) {
    if (all > limit || more > limit - all) return false;
    if (party.empty()) return true;
    const uint64_t left = limit - all - more;
    return own <= left && more <= left - own + 1;
  }

  bool HasRoomFor(const std::string& party) const {
    const auto found = taken_->find(party);
    return Allows(limit_, party, all_of(), found == taken_->end() ? 0 : found->second);
  }
  // Takes a place, whether there is room or not.
  Place Take(const std::string& party) {
    ++(*taken_)[party];
    // The pointer is not null, and only its deleter matters.
    return Place(taken_.get(), [taken = taken_, party](const void*) {
      const auto found = taken->find(party);
      if (--found->second == 0) taken->erase(found);
    });
  }

 private:
  using Taken = std::map<std::string, size_t>;  // keyed by party; no entry: none

  size_t all_of() const {
    size_t all = 0;
    for (const auto& [party, count] : *taken_) all += count;
    return all;
  }

  const size_t limit_;
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace atl
