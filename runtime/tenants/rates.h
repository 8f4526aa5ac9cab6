// How fast tenants and keys may do one thing: a token bucket for each. A bucket holds one second's
// worth, and at least one token, so a burst of that size passes at once.
//
// Only buckets that are not full take memory for long: before the table grows beyond kMostIdle, it
// loses the full ones, and a new bucket is full.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/base/clock.h"

namespace atl::tenants {

class Rates {
 public:
  // `clock` outlives this object.
  explicit Rates(const Clock& clock) : clock_(clock) {}
  Rates(const Rates&) = delete;
  Rates& operator=(const Rates&) = delete;

  // Takes `count` tokens of the bucket of that name, or none. `per_second` 0: unlimited. Returns 0
  // if they were taken, else the seconds after which they can be, at least 1. A count larger than
  // the bucket is taken from a full one, and the debt is paid before the next.
  int Take(const std::string& name, double per_second, double count = 1);
  // Gives back what Take has taken, because the request is refused for another reason.
  void GiveBack(const std::string& name, double count = 1);

  static constexpr size_t kMostIdle = 4096;
  size_t size() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;
    double size = 0;
    double per_second = 0;
    int64_t filled_us = 0;  // when `tokens` was right
  };

  static void Fill(Bucket& bucket, int64_t now_us);

  const Clock& clock_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace atl::tenants
