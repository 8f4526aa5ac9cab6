#include "runtime/api/histogram.h"

#include <algorithm>

namespace atl::api {

Series* Histogram::Find(const std::vector<AttributeValue>& values) {
  const auto found = series_.find(values);
  if (found != series_.end()) return &found->second;
  if (series_.size() >= kind_.max_series) return &overflow_;
  const auto share = shares_.find(values[kind_.shared]);
  if (share != shares_.end() && share->second >= kind_.share) return &overflow_;
  ++shares_[values[kind_.shared]];
  return &series_[values];
}

void Histogram::Record(double ms, const std::vector<AttributeValue>& values) {
  Series& series = *Find(values);
  if (series.count == 0) {
    series.buckets.resize(kind_.bounds.size() + 1);
    series.min = series.max = ms;
  }
  ++series.count;
  series.sum += ms;
  series.min = std::min(series.min, ms);
  series.max = std::max(series.max, ms);
  const auto bound = std::lower_bound(kind_.bounds.begin(), kind_.bounds.end(), ms);
  ++series.buckets[static_cast<size_t>(bound - kind_.bounds.begin())];
}

}  // namespace atl::api
