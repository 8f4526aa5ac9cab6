// One request on its way through the API: the exchange, and what every answer to it carries.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/api/api_error.h"
#include "runtime/http/server.h"

namespace atl::api {

class Call {
 public:
  // Takes X-Request-ID from the request if it is fit to be repeated, else makes one.
  explicit Call(std::shared_ptr<http::Exchange> exchange);

  const http::Request& request() const { return exchange_->request(); }
  http::Exchange& exchange() const { return *exchange_; }
  const std::string& request_id() const { return request_id_; }
  // Headers of every answer: X-Request-ID, and CORS when a browser asked.
  const std::vector<http::Header>& answer_headers() const { return answer_headers_; }

  // What the route's placeholders stood for, decoded.
  std::vector<std::string> args;

  void Respond(http::Response response) const;
  // See http::Exchange::Stream.
  std::shared_ptr<http::ResponseStream> Stream(http::Response head) const;
  void Respond(const ApiError& error) const { Respond(ErrorResponse(error)); }

 private:
  std::shared_ptr<http::Exchange> exchange_;
  std::string request_id_;
  std::vector<http::Header> answer_headers_;
};

// 200 to a CORS preflight: OPTIONS with Origin and Access-Control-Request-Method.
bool IsPreflight(const http::Request& request);
http::Response PreflightResponse(const http::Request& request);

}  // namespace atl::api
