// Metrics in the form of OpenTelemetry's collectors: an ExportMetricsServiceRequest in the JSON
// form of OTLP (opentelemetry-proto), in which 64-bit integers are strings. Counts are cumulative
// since the start of the process, so a lost document loses nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/metrics.h"

namespace atl::daemon {

struct OtlpContext {
  std::vector<std::pair<std::string, std::string>> resource;
  int64_t began_us = 0;  // since the Unix epoch
  int64_t now_us = 0;
};

// Families without samples are omitted.
std::string OtlpMetrics(const MetricSet& metrics, const OtlpContext& context);

}  // namespace atl::daemon
