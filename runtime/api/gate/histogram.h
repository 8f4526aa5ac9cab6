// Histograms of durations by attributes. One set of attribute values is a series. Clients choose
// some of these values, so the kind limits the number of series; all further values are counted in
// one overflow series.
//
// Thread rule: a plain object; give other threads a copy.
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
  std::vector<double> bounds;  // ms, ascending; a value equal to a bound counts below it
  std::vector<const char*> attributes;
  size_t max_series;
  // Limits the series with the same value of attribute `shared` to `share`, so that a client that
  // fills one value leaves room for the others.
  size_t shared;
  size_t share;
};

class Histogram {
 public:
  explicit Histogram(HistogramKind kind) : kind_(std::move(kind)) {}

  // `values` are those of the kind's attributes, in the same order.
  void Record(double ms, const std::vector<AttributeValue>& values);

  const HistogramKind& kind() const { return kind_; }
  const std::map<std::vector<AttributeValue>, Distribution>& series() const { return series_; }
  // Counts the values that had no series left.
  const Distribution& overflow() const { return overflow_; }

 private:
  Distribution* Find(const std::vector<AttributeValue>& values);

  HistogramKind kind_;
  std::map<std::vector<AttributeValue>, Distribution> series_;
  std::map<AttributeValue, size_t> shares_;
  Distribution overflow_;
};

}  // namespace atl::api
