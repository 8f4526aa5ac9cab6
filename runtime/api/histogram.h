// How long things took: a count for each range of milliseconds, by what they were. One set of
// attributes is a series, and what a stranger can say in an attribute makes no more of them than
// the kind allows: everything beyond counts in one that says nothing but that.
//
// Thread rule: a plain object; copies are for other threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace atl::api {

using AttributeValue = std::variant<std::string, int64_t, bool>;

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

struct Series {
  uint64_t count = 0;
  double sum = 0, min = 0, max = 0;
  std::vector<uint64_t> buckets;  // one more than bounds: the last is what is above all of them
};

class Histogram {
 public:
  explicit Histogram(HistogramKind kind) : kind_(std::move(kind)) {}

  // `values`: of the kind's attributes, in their order.
  void Record(double ms, const std::vector<AttributeValue>& values);

  const HistogramKind& kind() const { return kind_; }
  bool empty() const { return series_.empty() && overflow_.count == 0; }
  const std::map<std::vector<AttributeValue>, Series>& series() const { return series_; }
  // Of what had no place among them; count 0: nothing.
  const Series& overflow() const { return overflow_; }

 private:
  Series* Find(const std::vector<AttributeValue>& values);

  HistogramKind kind_;
  std::map<std::vector<AttributeValue>, Series> series_;
  std::map<AttributeValue, size_t> shares_;
  Series overflow_;
};

}  // namespace atl::api
