#include "runtime/daemon/otlp_json.h"

#include <nlohmann/json.hpp>

#include <variant>

#include "runtime/base/json_text.h"

namespace atl::daemon {
namespace {

using nlohmann::json;

constexpr char kScope[] = "opensandbox.server";  // upstream's name
constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE; OTLP requires the number

json Attribute(const std::string& name, const LabelValue& value) {
  json typed;
  if (const auto* text = std::get_if<std::string>(&value)) {
    typed["stringValue"] = *text;
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    typed["intValue"] = std::to_string(*number);
  } else {
    typed["boolValue"] = std::get<bool>(value);
  }
  return {{"key", name}, {"value", std::move(typed)}};
}

std::string Nanos(int64_t us) {
  return std::to_string(us) + "000";
}

json DataPoint(const MetricFamily& family, const MetricSample& sample, const OtlpContext& context) {
  json attributes = json::array();
  for (const auto& [name, value] : sample.labels) attributes.push_back(Attribute(name, value));
  json point = {{"attributes", std::move(attributes)},
                {"startTimeUnixNano", Nanos(context.began_us)},
                {"timeUnixNano", Nanos(context.now_us)}};
  if (family.type != MetricType::kHistogram) {
    point["asDouble"] = sample.value;
    return point;
  }
  const Distribution& values = sample.distribution;
  json counts = json::array();
  for (size_t i = 0; i <= family.bounds.size(); ++i) {
    counts.push_back(std::to_string(values.buckets.empty() ? 0 : values.buckets[i]));
  }
  point["count"] = std::to_string(values.count);
  point["sum"] = values.sum;
  if (values.count != 0) {
    point["min"] = values.min;
    point["max"] = values.max;
  }
  point["bucketCounts"] = std::move(counts);
  point["explicitBounds"] = family.bounds;
  return point;
}

json Metric(const MetricFamily& family, const OtlpContext& context) {
  json points = json::array();
  for (const MetricSample& sample : family.samples) {
    points.push_back(DataPoint(family, sample, context));
  }
  json data = {{"dataPoints", std::move(points)}};
  if (family.type != MetricType::kGauge) data["aggregationTemporality"] = kCumulative;
  if (family.type == MetricType::kCounter) data["isMonotonic"] = true;
  const char* kind = family.type == MetricType::kGauge     ? "gauge"
                     : family.type == MetricType::kCounter ? "sum"
                                                           : "histogram";
  return {{"name", family.name},
          {"description", family.help},
          {"unit", family.unit},
          {kind, std::move(data)}};
}

}  // namespace

std::string OtlpMetrics(const MetricSet& metrics, const OtlpContext& context) {
  json attributes = json::array();
  for (const auto& [name, value] : context.resource) attributes.push_back(Attribute(name, value));
  json told = json::array();
  for (const MetricFamily& family : metrics.families()) {
    if (!family.samples.empty()) told.push_back(Metric(family, context));
  }
  const json scope = {{"scope", {{"name", kScope}}}, {"metrics", std::move(told)}};
  const json document = {
      {"resourceMetrics", json::array({{{"resource", {{"attributes", std::move(attributes)}}},
                                        {"scopeMetrics", json::array({scope})}}})}};
  return JsonText(document);
}

}  // namespace atl::daemon
