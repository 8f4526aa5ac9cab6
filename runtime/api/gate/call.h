// One request on its way through the API: the exchange, and what every answer to it carries.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/http/server.h"
#include "runtime/sandbox/record/caller.h"

namespace atl::api {

// What goes with every answer to one request, also to those that others send.
struct Answering {
  std::string request_id;
  std::vector<http::Header> headers;  // X-Request-ID, and what was allowed to a page
  const std::vector<std::string>* private_directories;

  // `text` as a client may know it: without paths of ours. If that leaves something out, all of it
  // goes to the log, under the request's id, which the client is told.
  std::string Tellable(const std::string& text) const;
  http::Response Failure(const ApiError& error) const;
};

class Call {
 public:
  // Takes X-Request-ID from the request if it is fit to be repeated, else makes one. No error that
  // it answers tells a path below `private_directories`, which outlive it.
  Call(std::shared_ptr<http::Exchange> exchange,
       const std::vector<std::string>& private_directories);

  const http::Request& request() const { return exchange_->request(); }
  http::Exchange& exchange() const { return *exchange_; }
  const std::string& request_id() const { return answering_.request_id; }
  const Answering& answering() const { return answering_; }

  // Who asks: set once, where the request was authorised. Whatever asks for it before that ends the
  // daemon.
  const sandbox::Caller& caller() const { return caller_.value(); }
  void SetCaller(const sandbox::Caller& caller) { caller_ = caller; }

  // CORS: the page that asked may read the answer, whatever its origin. For routes of ours that ask
  // for a key or a token, which no browser adds by itself.
  void AllowOrigin();

  // Has a line of the log say who asked for what, from where, and what came of it, as soon as the
  // answer is handed over. `what`: method and pattern of the route. Once `args` are there.
  void LogAnswer(std::string what, std::string who);

  // What the route's placeholders stood for, decoded.
  std::vector<std::string> args;

  // Of the query: the last one of that name; empty if there is none.
  std::string Parameter(std::string_view name) const;

  void Respond(http::Response response) const;
  void Respond(const ApiError& error) const {
    Log(error.status, error.code, {});
    Send(answering_.Failure(error));
  }
  // See http::Exchange::Stream.
  std::shared_ptr<http::ResponseStream> Stream(http::Response head) const;

 private:
  struct Deed {
    std::string what;
    std::string who;
    int64_t began_us;
  };
  void Send(http::Response response) const;
  // `location`: of what was made; else empty.
  void Log(int status, std::string_view code, std::string_view location) const;

  std::shared_ptr<http::Exchange> exchange_;
  Answering answering_;
  std::optional<sandbox::Caller> caller_;
  std::shared_ptr<const Deed> deed_;  // null: it is not logged
};

// 200 to a CORS preflight: OPTIONS with Origin and Access-Control-Request-Method.
bool IsPreflight(const http::Request& request);
http::Response PreflightResponse(const http::Request& request);

}  // namespace atl::api
