#include "netpolicy/policy/denials.h"

#include <algorithm>
#include <utility>

namespace atl::netpolicy {
namespace {

constexpr int64_t kTokenUs = 1'000'000 / Denials::kPerSecond;

bool Same(const Denial& a, const Denial& b) {
  return a.hostname == b.hostname && a.address == b.address && a.port == b.port &&
         a.protocol == b.protocol && a.reason == b.reason;
}

}  // namespace

bool Denials::Add(const Denial& denial, int64_t now_us) {
  if (!denial.by_rules) ++by_name_;
  const int64_t full = kBurst * kTokenUs;
  credit_us_ = last_us_ == 0 ? full : std::min(full, credit_us_ + (now_us - last_us_));
  last_us_ = now_us;
  if (!recent_.empty() && Same(recent_.back(), denial)) {
    ++recent_.back().count;
    return false;
  }
  if (credit_us_ < kTokenUs) return false;
  credit_us_ -= kTokenUs;
  if (recent_.size() == kKept) recent_.pop_front();
  recent_.push_back(denial);
  return true;
}

}  // namespace atl::netpolicy
