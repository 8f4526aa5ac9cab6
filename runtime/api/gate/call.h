// One request in flight through the API: its exchange, and the headers that every answer to it
// carries.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/audit_entry.h"
#include "runtime/http/server.h"
#include "runtime/tenants/caller.h"

namespace atl::api {

// The parts common to all answers to one request. Other components that answer in our place use it
// too.
struct Answering {
  std::string request_id;
  std::vector<http::Header> headers;  // X-Request-ID and the CORS headers
  const std::vector<std::string>* private_directories;

  // Returns `text` without the paths of the daemon. If it had to cut something, the log gets the
  // whole text under the request id, and the answer names that id.
  std::string Tellable(const std::string& text) const;
  http::Response Failure(const ApiError& error) const;
};

class Call {
 public:
  // Takes X-Request-ID from the request if the value is safe to repeat, else makes an id. No error
  // that this call answers contains a path below `private_directories`, which must outlive the
  // call.
  Call(std::shared_ptr<http::Exchange> exchange,
       const std::vector<std::string>& private_directories);

  const http::Request& request() const { return exchange_->request(); }
  http::Exchange& exchange() const { return *exchange_; }
  const std::string& request_id() const { return answering_.request_id; }
  const Answering& answering() const { return answering_; }

  // The authorised caller. SetCaller is called once, after authorisation. Reading the caller
  // earlier is a bug and ends the daemon.
  const tenants::Caller& caller() const { return caller_.value(); }
  void SetCaller(const tenants::Caller& caller) { caller_ = caller; }
  // Returns false on an open route if the request has no right key.
  bool has_caller() const { return caller_.has_value(); }

  // Keeps the place until the last copy of this call is gone.
  void Hold(std::shared_ptr<const void> place) { place_ = std::move(place); }

  // Allows web pages of any origin to read the answer (CORS). Safe only on our own routes: they
  // require a key or a token, which no browser adds by itself.
  void AllowOrigin();

  // Logs one line when the answer is handed over: the caller, the operation, the peer and the
  // status. `what` is the method and pattern of the route. Call it after `args` is set.
  void LogAnswer(std::string what, std::string who);

  // The line of the audit log about this call, which the answer writes. Null: none.
  void Audit(std::shared_ptr<AuditEntry> entry) { audit_ = std::move(entry); }
  const std::shared_ptr<AuditEntry>& audit() const { return audit_; }

  // The decoded values of the route's placeholders.
  std::vector<std::string> args;

  // Returns the last query parameter of that name, or "" if there is none.
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
  // `location` is the URL of a created object; else empty.
  void Log(int status, std::string_view code, std::string_view location) const;

  std::shared_ptr<http::Exchange> exchange_;
  Answering answering_;
  std::optional<tenants::Caller> caller_;
  std::shared_ptr<const void> place_;
  std::shared_ptr<const Deed> deed_;  // null: the call is not logged
  // Declared after the exchange, because the line comes before the answer of an exchange that
  // nobody has answered.
  std::shared_ptr<AuditEntry> audit_;
};

// Returns true for a CORS preflight: OPTIONS with Origin and Access-Control-Request-Method. Its
// answer is 200.
bool IsPreflight(const http::Request& request);
http::Response PreflightResponse(const http::Request& request);

}  // namespace atl::api
