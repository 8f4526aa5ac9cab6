// How long each request took here, and what clients report of how long their creates took: the two
// histograms of upstream's server, which OpenTelemetry's collectors get as they are. Prometheus
// gets the requests in a form of its own.
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

  // The exchange in whose place the one that is returned is to be answered. Its request counts when
  // the answer is over: handed to the server, or, if it is streamed or comes from a sandbox, when
  // its last byte has been. One that changes to another protocol (101) does not: a tunnel that
  // stands for hours says nothing of how fast answers are. `route_template`: Api::TemplateOf.
  static std::shared_ptr<http::Exchange> Measure(const std::shared_ptr<Measurements>& measurements,
                                                 std::shared_ptr<http::Exchange> exchange,
                                                 std::string route_template);
  void AddClientEvent(const ClientEvent& event, const ClientSdk& sdk);

  // Upstream's two histograms, under upstream's names, in milliseconds.
  void AddUpstream(MetricSet* metrics) const;
  // atoll_http_*, in seconds; a route below /v1 counts as the route itself.
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
