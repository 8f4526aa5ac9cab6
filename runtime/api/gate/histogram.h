// Counts how long things took, by attributes. One set of attribute values is a series. Strangers
// choose some of these values, so the kind bounds the number of series: what exceeds the bound
// counts in one overflow series.
//
// Thread rule: a plain object; copies are for other threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/metrics.h"

namespace atl::api {

using AttributeValue = LabelValue;

struct HistogramKind {
  const char* name;
  const char* description;
  std::vector<double> bounds;  // ms, growing; a value equal to one counts below it
  std::vector<const char*> attributes;
  size_t max_series;
  // Those whose value of attribute `shared` is the same have at most `share` of them, so that one
  // that strangers fill leaves the others theirs.
  size_t shared;
  size_t share;
};

class Histogram {
 public:
  explicit Histogram(HistogramKind kind) : kind_(std::move(kind)) {}

  // `values`: of the kind's attributes, in their order.
  void Record(double ms, const std::vector<AttributeValue>& values);

  const HistogramKind& kind() const { return kind_; }
  const std::map<std::vector<AttributeValue>, Distribution>& series() const { return series_; }
  // Counts what had no place in a series of its own.
  const Distribution& overflow() const { return overflow_; }

 private:
  Distribution* Find(const std::vector<AttributeValue>& values);

  HistogramKind kind_;
  std::map<std::vector<AttributeValue>, Distribution> series_;
  std::map<AttributeValue, size_t> shares_;
  Distribution overflow_;
};

}  // namespace atl::api
