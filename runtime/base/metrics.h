// Metrics for operators: families of samples, each with a name, a help text, a type and a unit. A
// set is collected for each scrape or export. PrometheusText here, and OtlpMetrics in the daemon,
// format it.
//
// Names, units and labels follow Prometheus: seconds and bytes, counters end in "_total". The
// values of a label must come from a closed set, or the code that adds samples must bound their
// number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace atl {

// Counts of values by range. A plain object; any thread that owns it.
struct Distribution {
  uint64_t count = 0;
  double sum = 0, min = 0, max = 0;
  // One element more than there are bounds: the last counts values above all of them. Empty while
  // count is 0.
  std::vector<uint64_t> buckets;

  // Adds a value. `bounds` are ascending and must be the same for each call. A value equal to a
  // bound counts below it.
  void Record(double value, std::span<const double> bounds);
  // Adds the values of `other`, each multiplied by `scale`. Its bounds times `scale` must be the
  // bounds of this one.
  void Merge(const Distribution& other, double scale);
};

enum class MetricType { kCounter, kGauge, kHistogram };
using LabelValue = std::variant<std::string, int64_t, bool>;

struct MetricSample {
  std::vector<std::pair<const char*, LabelValue>> labels;
  double value = 0;           // used by counters and gauges
  Distribution distribution;  // used by histograms
};

struct MetricFamily {
  const char* name;
  const char* help;
  MetricType type;
  const char* unit;  // UCUM, as OpenTelemetry requires: "s", "By", "1", "ms"
  std::vector<const char*> labels;
  std::vector<double> bounds;  // used by histograms
  std::vector<MetricSample> samples;

  // `values` of the `labels`, in their order.
  template <typename Number>
  MetricFamily& Add(Number value, std::vector<LabelValue> values = {}) {
    return AddSample({.labels = Labelled(std::move(values)), .value = static_cast<double>(value)});
  }
  MetricFamily& Add(Distribution distribution, std::vector<LabelValue> values = {}) {
    return AddSample(
        {.labels = Labelled(std::move(values)), .distribution = std::move(distribution)});
  }

 private:
  MetricFamily& AddSample(MetricSample sample);
  std::vector<std::pair<const char*, LabelValue>> Labelled(std::vector<LabelValue> values) const;
};

class MetricSet {
 public:
  // Start a family. The reference is valid until the next one is started.
  MetricFamily& Counter(const char* name, const char* help, std::vector<const char*> labels = {});
  MetricFamily& Gauge(const char* name, const char* help, std::vector<const char*> labels = {});
  MetricFamily& Histogram(const char* name, const char* help, std::span<const double> bounds,
                          std::vector<const char*> labels = {}, const char* unit = nullptr);

  // Removes all samples but those whose `label` is `value`, and the families that have none left.
  void KeepLabelled(std::string_view label, const std::string& value);

  const std::vector<MetricFamily>& families() const { return families_; }

 private:
  MetricFamily& Begin(const char* name, const char* help, MetricType type, const char* unit,
                      std::vector<const char*> labels);
  std::vector<MetricFamily> families_;
};

// Returns the Prometheus text format, version 0.0.4.
std::string PrometheusText(const MetricSet& metrics);

// Bounds for durations from half a millisecond to ten seconds, in seconds.
inline constexpr double kSecondsBounds[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                            0.1,    0.2,   0.5,   1,     2.5,  5,    10};

// Bounds for the steps of a build, from ten microseconds on, in seconds.
inline constexpr double kStepBounds[] = {1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.02, 0.1};

}  // namespace atl
