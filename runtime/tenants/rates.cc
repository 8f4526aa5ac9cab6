#include "runtime/tenants/rates.h"

#include <algorithm>
#include <cmath>

namespace atl::tenants {
namespace {

constexpr double kMostSeconds = 3600;

}  // namespace

void Rates::Fill(Bucket& bucket, int64_t now_us) {
  const double passed_s = static_cast<double>(now_us - bucket.filled_us) / 1e6;
  bucket.tokens = std::min(bucket.size, bucket.tokens + passed_s * bucket.per_second);
  bucket.filled_us = now_us;
}

int Rates::Take(const std::string& name, double per_second, double count) {
  if (per_second <= 0) {
    buckets_.erase(name);
    return 0;
  }
  const int64_t now_us = clock_.BootMicros();
  if (buckets_.size() >= kMostIdle && !buckets_.contains(name)) {
    for (auto& [other, bucket] : buckets_) Fill(bucket, now_us);
    std::erase_if(buckets_,
                  [](const auto& entry) { return entry.second.tokens >= entry.second.size; });
  }
  const double size = std::max(1.0, per_second);
  Bucket& bucket = buckets_.try_emplace(name, Bucket{size, size, per_second, now_us}).first->second;
  bucket.size = size;
  bucket.per_second = per_second;
  Fill(bucket, now_us);
  const double needed = std::min(count, size);
  if (bucket.tokens >= needed) {
    bucket.tokens -= count;
    return 0;
  }
  const double wait_s = std::ceil((needed - bucket.tokens) / per_second);
  return static_cast<int>(std::clamp(wait_s, 1.0, kMostSeconds));
}

void Rates::GiveBack(const std::string& name, double count) {
  const auto found = buckets_.find(name);
  if (found != buckets_.end()) found->second.tokens += count;
}

}  // namespace atl::tenants
