// What OpenTelemetry's collectors are told, in upstream's two histograms: how long each request
// took here, and what clients say of how long their creates took. Made only if somebody wants it.
//
// Thread rule: on the loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/api/client_event.h"
#include "runtime/api/histogram.h"
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

  const Histogram& requests() const { return requests_; }
  const Histogram& creates() const { return creates_; }

 private:
  friend class RequestTime;

  const Clock& clock_;
  Histogram requests_;
  Histogram creates_;
};

}  // namespace atl::api
