#include "runtime/base/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "runtime/base/result.h"

namespace atl {
namespace {

// Whole numbers are written as such: "1e+06" is valid, but hard to read.
std::string NumberText(double value) {
  char digits[32];
  constexpr double kExact = 9007199254740992;  // 2^53
  const bool whole = std::trunc(value) == value && std::abs(value) < kExact;
  const auto end =
      whole ? std::to_chars(digits, digits + sizeof digits, static_cast<int64_t>(value)).ptr
            : std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

std::string Escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out.append("\\n");
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::string LabelText(const LabelValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  return std::get<bool>(value) ? "true" : "false";
}

void AppendSample(std::string_view name, std::string_view suffix, const MetricSample& sample,
                  std::string_view bound, double value, std::string* out) {
  out->append(name).append(suffix);
  std::string labels;
  const auto add = [&labels](std::string_view label, std::string_view text) {
    labels.append(labels.empty() ? "" : ",").append(label).append("=\"");
    labels.append(Escaped(text, true)).append("\"");
  };
  for (const auto& [label, text] : sample.labels) add(label, LabelText(text));
  if (!bound.empty()) add("le", bound);
  if (!labels.empty()) out->append("{").append(labels).append("}");
  out->append(" ").append(NumberText(value)).append("\n");
}

void AppendHistogram(const MetricFamily& family, const MetricSample& sample, std::string* out) {
  const Distribution& values = sample.distribution;
  uint64_t below = 0;
  for (size_t i = 0; i < family.bounds.size(); ++i) {
    if (!values.buckets.empty()) below += values.buckets[i];
    AppendSample(family.name, "_bucket", sample, NumberText(family.bounds[i]),
                 static_cast<double>(below), out);
  }
  AppendSample(family.name, "_bucket", sample, "+Inf", static_cast<double>(values.count), out);
  AppendSample(family.name, "_sum", sample, {}, values.sum, out);
  AppendSample(family.name, "_count", sample, {}, static_cast<double>(values.count), out);
}

const char* UnitOf(std::string_view name) {
  if (name.ends_with("_total")) name.remove_suffix(std::string_view("_total").size());
  if (name.ends_with("_seconds")) return "s";
  return name.ends_with("_bytes") ? "By" : "1";
}

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      break;
  }
  return "histogram";
}

}  // namespace

void Distribution::Record(double value, std::span<const double> bounds) {
  if (count == 0) {
    buckets.resize(bounds.size() + 1);
    min = max = value;
  }
  ++count;
  sum += value;
  min = std::min(min, value);
  max = std::max(max, value);
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++buckets[static_cast<size_t>(bound - bounds.begin())];
}

void Distribution::Merge(const Distribution& other, double scale) {
  if (other.count == 0) return;
  min = count == 0 ? other.min * scale : std::min(min, other.min * scale);
  max = count == 0 ? other.max * scale : std::max(max, other.max * scale);
  count += other.count;
  sum += other.sum * scale;
  buckets.resize(other.buckets.size());
  for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
}

MetricFamily& MetricFamily::AddSample(MetricSample sample) {
  samples.push_back(std::move(sample));
  return *this;
}

std::vector<std::pair<const char*, LabelValue>> MetricFamily::Labelled(
    std::vector<LabelValue> values) const {
  ATOLL_CHECK(values.size() == labels.size());
  std::vector<std::pair<const char*, LabelValue>> labelled;
  for (size_t i = 0; i < values.size(); ++i) labelled.emplace_back(labels[i], std::move(values[i]));
  return labelled;
}

MetricFamily& MetricSet::Begin(const char* name, const char* help, MetricType type,
                               const char* unit, std::vector<const char*> labels) {
  return families_.emplace_back(MetricFamily{
      name, help, type, unit != nullptr ? unit : UnitOf(name), std::move(labels), {}, {}});
}

void MetricSet::KeepLabelled(std::string_view label, const std::string& value) {
  for (MetricFamily& family : families_) {
    std::erase_if(family.samples, [&](const MetricSample& sample) {
      return std::none_of(sample.labels.begin(), sample.labels.end(), [&](const auto& one) {
        const auto* text = std::get_if<std::string>(&one.second);
        return one.first == label && text != nullptr && *text == value;
      });
    });
  }
  std::erase_if(families_, [](const MetricFamily& family) { return family.samples.empty(); });
}

MetricFamily& MetricSet::Counter(const char* name, const char* help,
                                 std::vector<const char*> labels) {
  return Begin(name, help, MetricType::kCounter, nullptr, std::move(labels));
}

MetricFamily& MetricSet::Gauge(const char* name, const char* help,
                               std::vector<const char*> labels) {
  return Begin(name, help, MetricType::kGauge, nullptr, std::move(labels));
}

MetricFamily& MetricSet::Histogram(const char* name, const char* help,
                                   std::span<const double> bounds, std::vector<const char*> labels,
                                   const char* unit) {
  MetricFamily& family = Begin(name, help, MetricType::kHistogram, unit, std::move(labels));
  family.bounds.assign(bounds.begin(), bounds.end());
  return family;
}

std::string PrometheusText(const MetricSet& metrics) {
  std::string out;
  for (const MetricFamily& family : metrics.families()) {
    out.append("# HELP ").append(family.name).append(" ").append(Escaped(family.help, false));
    out.append("\n# TYPE ").append(family.name).append(" ").append(TypeName(family.type));
    out.append("\n");
    for (const MetricSample& sample : family.samples) {
      if (family.type == MetricType::kHistogram) {
        AppendHistogram(family, sample, &out);
      } else {
        AppendSample(family.name, {}, sample, {}, sample.value, &out);
      }
    }
  }
  return out;
}

}  // namespace atl
