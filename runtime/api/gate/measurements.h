// The durations of requests, and the durations of creates as clients report them. These are the two
// histograms of upstream's server, and OpenTelemetry collectors get them unchanged. Prometheus gets
// the requests under Atoll's own names.
//
// Thread rule: on the loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/api/gate/client_event.h"
#include "runtime/api/gate/histogram.h"
#include "runtime/base/clock.h"
#include "runtime/http/server.h"

namespace atl::api {

class Measurements {
 public:
  explicit Measurements(const Clock& clock);
  Measurements(const Measurements&) = delete;
  Measurements& operator=(const Measurements&) = delete;

  // Wraps `exchange`; answer the returned exchange instead. The request counts when its answer is
  // complete: handed to the server, or, for a stream or an answer of a sandbox, after its last
  // byte. A request that switches protocols (101) is not counted, because the life of a tunnel says
  // nothing about latency. `route_template` is Api::TemplateOf.
  static std::shared_ptr<http::Exchange> Measure(const std::shared_ptr<Measurements>& measurements,
                                                 std::shared_ptr<http::Exchange> exchange,
                                                 std::string route_template);
  void AddClientEvent(const ClientEvent& event, const ClientSdk& sdk);

  // Adds upstream's two histograms, under upstream's names, in milliseconds.
  void AddUpstream(MetricSet* metrics) const;
  // Adds atoll_http_*, in seconds. A route below /v1 counts as the route itself.
  void AddRequests(MetricSet* metrics) const;

  const Histogram& requests() const { return requests_; }
  const Histogram& creates() const { return creates_; }

 private:
  friend class RequestTime;

  const Clock& clock_;
  Histogram requests_;
  Histogram creates_;
};

}  // namespace atl::api
