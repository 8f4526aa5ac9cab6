// Histograms as OpenTelemetry's collectors take them: an ExportMetricsServiceRequest in the JSON
// form of OTLP (opentelemetry-proto), where 64-bit integers are texts. Counts are cumulative: from
// the process's beginning, so that a document that is lost loses nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/api/histogram.h"

namespace atl::daemon {

struct OtlpContext {
  std::vector<std::pair<std::string, std::string>> resource;
  int64_t began_us = 0;  // since the Unix epoch
  int64_t now_us = 0;
};

// One that is empty is left out.
std::string OtlpMetrics(const std::vector<api::Histogram>& histograms, const OtlpContext& context);

}  // namespace atl::daemon
