// What one image is asked for with: HTTPS to its registry, who we are, and where the registry sends
// us for the bytes themselves.
//
// Thread rule: blocks; one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "images/registry/credentials.h"
#include "images/registry/patience.h"
#include "images/registry/reference.h"
#include "runtime/base/result.h"
#include "runtime/http/client.h"

namespace atl::images::registry {

class Session {
 public:
  // `trust`: whose certificates are believed, of whichever server.
  static Result<Session> Open(Reference reference, Credentials credentials,
                              std::shared_ptr<const http::TlsContext> trust,
                              std::shared_ptr<Patience> patience);

  // GET of `path` below the image's repository; `sink` gets the body, and false from it stops.
  // The answer's head, of status 200. kPermissionDenied: it does not know us, or does not let us;
  // kNotFound; kUnavailable: all else that may pass.
  using Sink = std::function<bool(std::string_view)>;
  Result<http::Headers> Get(const std::string& path, const std::string& accept, const Sink& sink);

  const Reference& reference() const { return reference_; }

 private:
  Session(Reference reference, std::string origin, Credentials credentials,
          std::shared_ptr<const http::TlsContext> trust, std::shared_ptr<Patience> patience,
          std::unique_ptr<http::Client> client);
  Result<http::Response> Ask(http::Client& client, const std::string& target,
                             const std::string& accept, const std::string& authorization,
                             const Sink& sink);
  Status Authenticate(std::string_view challenge);
  Result<std::string> FetchToken(const std::string& url);
  Result<http::Response> Follow(http::Response response, const std::string& accept,
                                const Sink& sink);
  Error Refused(const http::Response& response) const;
  std::string basic() const;

  Reference reference_;
  std::string origin_;
  Credentials credentials_;
  std::shared_ptr<const http::TlsContext> trust_;
  std::shared_ptr<Patience> patience_;
  std::unique_ptr<http::Client> client_;  // of the registry itself
  std::string authorization_;             // for it alone
};

}  // namespace atl::images::registry
