// The client of the server's API for all verbs: one connection, and errors in the server's words.
//
// Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/client.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

class Api {
 public:
  static constexpr int kPatience = 30;

  static Result<Api> Connect(const Settings& settings);

  // Sends a call; its target is below /v1, such as "/sandboxes". Returns a 2xx answer. Any other
  // answer is an error with the text "message (CODE)". A GET that comes too fast for the tenant's
  // rate is sent again when the server says so, for up to kPatience seconds.
  Result<http::Response> Send(http::Client::Call call);
  Result<http::Response> Send(const std::string& method, const std::string& target,
                              const std::string& json_body = {});
  const std::string& server_url() const { return server_.url; }
  // The key that is sent; empty: none.
  const std::string& key() const { return server_.api_key; }
  // The tenant whose objects the user means; empty: no one tenant's.
  const std::string& tenant() const { return tenant_; }
  // Null if the server has no TLS.
  const http::TlsContext* trust() const { return trust_.get(); }
  // Returns the target of a request from one below /v1, with what the settings add: the reason of
  // who enters a sandbox of another tenant, or the tenant that names belong to.
  std::string TargetOf(std::string_view target) const;
  // Like Send, but streams the body of a 2xx answer to `on_data`. False from `on_data` stops it.
  Result<http::Response> Stream(http::Client::Call call,
                                const std::function<bool(std::string_view)>& on_data);

 private:
  Api(std::unique_ptr<http::Client> client, Server server,
      std::shared_ptr<const http::TlsContext> trust, const Settings& settings);
  void AddKey(http::Client::Call* call) const;
  Result<http::Response> CheckStatus(Result<http::Response> response) const;

  std::unique_ptr<http::Client> client_;
  Server server_;
  std::shared_ptr<const http::TlsContext> trust_;
  std::string tenant_, reason_;
};

// Returns the text of an error answer on one line: from {code, message}, else the body's text.
std::string ErrorText(int status, const std::string& body);

// Escapes all but unreserved characters, for a path segment or a query value.
std::string PercentEncode(std::string_view text);
// Doubles each $ in a path for an upstream route of execd, which would expand $NAME as a variable.
std::string LiteralPath(std::string_view path);

}  // namespace atl::cli
