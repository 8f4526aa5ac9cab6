#include "runtime/api/gate/histogram.h"

namespace atl::api {

Distribution* Histogram::Find(const std::vector<AttributeValue>& values) {
  const auto found = series_.find(values);
  if (found != series_.end()) return &found->second;
  if (series_.size() >= kind_.max_series) return &overflow_;
  const auto share = shares_.find(values[kind_.shared]);
  if (share != shares_.end() && share->second >= kind_.share) return &overflow_;
  ++shares_[values[kind_.shared]];
  return &series_[values];
}

void Histogram::Record(double ms, const std::vector<AttributeValue>& values) {
  Find(values)->Record(ms, kind_.bounds);
}

}  // namespace atl::api
