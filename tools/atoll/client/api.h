// The server's API as the verbs see it: one connection, errors as the server words them.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/client.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

class Api {
 public:
  static Result<Api> Connect(const Settings& settings);

  // Target below /v1, "/sandboxes". The answer if its status is 2xx; else the error that it names:
  // "message (CODE)".
  Result<http::Response> Send(http::Client::Call call);
  Result<http::Response> Send(const std::string& method, const std::string& target,
                              const std::string& json_body = {});
  const std::string& server_url() const { return server_.url; }
  // Null for a server without TLS.
  const http::TlsContext* trust() const { return trust_.get(); }
  // As Send; a 2xx body goes to `on_data`.
  Result<http::Response> Stream(http::Client::Call call,
                                const std::function<bool(std::string_view)>& on_data);

 private:
  Api(std::unique_ptr<http::Client> client, Server server,
      std::shared_ptr<const http::TlsContext> trust);
  void AddKey(http::Client::Call* call) const;
  Result<http::Response> CheckStatus(Result<http::Response> response) const;

  std::unique_ptr<http::Client> client_;
  Server server_;
  std::shared_ptr<const http::TlsContext> trust_;
};

// What an answer with an error says, on one line: from {code, message}, else whatever text there
// is.
std::string ErrorText(int status, const std::string& body);

// A path segment or a query value with everything but unreserved characters escaped.
std::string PercentEncode(std::string_view text);
// A path for a route of execd's that upstream has, too, where $NAME is a variable: each $ twice.
std::string LiteralPath(std::string_view path);

}  // namespace atl::cli
