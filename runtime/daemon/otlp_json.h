// Metrics as OpenTelemetry's collectors take them: an ExportMetricsServiceRequest in the JSON form
// of OTLP (opentelemetry-proto), where 64-bit integers are texts. Counts are cumulative since the
// start of the process, so a document that is lost loses nothing.
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

// Families without samples are left out.
std::string OtlpMetrics(const MetricSet& metrics, const OtlpContext& context);

}  // namespace atl::daemon
