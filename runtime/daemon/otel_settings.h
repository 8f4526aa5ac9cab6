// Where metrics are sent to, as whom and with what: the section [otel], and the variables that
// OpenTelemetry's own exporters know.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/http/message.h"

namespace atl::daemon {

struct OtelSettings {
  std::string url;        // of the metrics alone: "http://localhost:4318/v1/metrics"
  http::Headers headers;  // secrets among them
  std::vector<std::pair<std::string, std::string>> resource;  // who tells: service.name and others
  int64_t interval_us = 0;
};

// Nothing: nothing is to be sent, because otel.enabled is false, OTEL_SDK_DISABLED is true or
// OTEL_METRICS_EXPORTER is none. The URL is the first that there is of otel.endpoint and
// OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, as they are; OTEL_EXPORTER_OTLP_ENDPOINT with /v1/metrics
// behind it; that of this host. (To one of the first two without a path it is added as well, for a
// collector has nothing at its root.) Headers come from OTEL_EXPORTER_OTLP_METRICS_HEADERS, else
// OTEL_EXPORTER_OTLP_HEADERS; attributes from OTEL_RESOURCE_ATTRIBUTES, below otel.service_name and
// before the host's name and our version.
// Errors name the variable, and no header's value.
Result<std::optional<OtelSettings>> FindOtelSettings(const Config& config,
                                                     const std::vector<std::string>& environment);

}  // namespace atl::daemon
