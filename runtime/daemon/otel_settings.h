// The destination and identity of exported metrics, from the section [otel] and the variables of
// OpenTelemetry's own exporters.
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
  std::string url;        // URL for metrics: "http://localhost:4318/v1/metrics"
  http::Headers headers;  // may contain secrets
  // identity of the sender: service.name and others
  std::vector<std::pair<std::string, std::string>> resource;
  int64_t interval_us = 0;
};

// Returns the settings. Empty if nothing is to be sent: otel.enabled is false, OTEL_SDK_DISABLED is
// true, or OTEL_METRICS_EXPORTER is none.
//
// The URL is the first of these that is set:
// - otel.endpoint or OTEL_EXPORTER_OTLP_METRICS_ENDPOINT as they are; /v1/metrics is added only if
//   there is no path, because a collector has nothing at its root;
// - OTEL_EXPORTER_OTLP_ENDPOINT with /v1/metrics;
// - the standard URL on this host.
//
// Headers come from OTEL_EXPORTER_OTLP_METRICS_HEADERS, or else OTEL_EXPORTER_OTLP_HEADERS.
// Attributes come from OTEL_RESOURCE_ATTRIBUTES. otel.service_name overrides them, and they
// override the host's name, our version and service.instance.id. That id is the same after a
// restart: it stands for the data directory on this host.
//
// Errors name the variable, and never a header's value.
Result<std::optional<OtelSettings>> FindOtelSettings(const Config& config,
                                                     const std::vector<std::string>& environment);

}  // namespace atl::daemon
