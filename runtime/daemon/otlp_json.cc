#include "runtime/daemon/otlp_json.h"

#include <nlohmann/json.hpp>

#include <variant>

#include "runtime/base/json_text.h"

namespace atl::daemon {
namespace {

using nlohmann::json;

constexpr char kScope[] = "opensandbox.server";  // upstream's name
// What OpenTelemetry calls a series of everything that had no place in one of its own.
constexpr char kOverflow[] = "otel.metric.overflow";

json Attribute(const std::string& name, const api::AttributeValue& value) {
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

json DataPoint(const api::HistogramKind& kind, const api::Series& series, json attributes,
               const OtlpContext& context) {
  json counts = json::array();
  for (const uint64_t count : series.buckets) counts.push_back(std::to_string(count));
  return {{"attributes", std::move(attributes)},
          {"startTimeUnixNano", Nanos(context.began_us)},
          {"timeUnixNano", Nanos(context.now_us)},
          {"count", std::to_string(series.count)},
          {"sum", series.sum},
          {"min", series.min},
          {"max", series.max},
          {"bucketCounts", std::move(counts)},
          {"explicitBounds", kind.bounds}};
}

json Metric(const api::Histogram& histogram, const OtlpContext& context) {
  constexpr int kCumulative = 2;  // AGGREGATION_TEMPORALITY_CUMULATIVE; OTLP wants the number
  const api::HistogramKind& kind = histogram.kind();
  json points = json::array();
  for (const auto& [values, series] : histogram.series()) {
    json attributes = json::array();
    for (size_t i = 0; i < values.size(); ++i) {
      attributes.push_back(Attribute(kind.attributes[i], values[i]));
    }
    points.push_back(DataPoint(kind, series, std::move(attributes), context));
  }
  if (histogram.overflow().count != 0) {
    points.push_back(
        DataPoint(kind, histogram.overflow(), json::array({Attribute(kOverflow, true)}), context));
  }
  return {
      {"name", kind.name},
      {"description", kind.description},
      {"unit", "ms"},
      {"histogram", {{"aggregationTemporality", kCumulative}, {"dataPoints", std::move(points)}}}};
}

}  // namespace

std::string OtlpMetrics(const std::vector<api::Histogram>& histograms, const OtlpContext& context) {
  json attributes = json::array();
  for (const auto& [name, value] : context.resource) attributes.push_back(Attribute(name, value));
  json metrics = json::array();
  for (const api::Histogram& histogram : histograms) {
    if (!histogram.empty()) metrics.push_back(Metric(histogram, context));
  }
  const json scope = {{"scope", {{"name", kScope}}}, {"metrics", std::move(metrics)}};
  const json document = {
      {"resourceMetrics", json::array({{{"resource", {{"attributes", std::move(attributes)}}},
                                        {"scopeMetrics", json::array({scope})}}})}};
  return JsonText(document);
}

}  // namespace atl::daemon
