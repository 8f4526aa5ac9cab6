// What one image is asked for with: HTTPS to its registry, who we are, and where the registry sends
// us for the bytes themselves.
//
// Thread rule: blocks; one thread at a time.
#pragma once

#include <cstdint>
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
  // The same of what never changes. A transfer that has begun and breaks off goes on where it was,
  // again and again, while something comes and patience lasts.
  Status GetSteadily(const std::string& path, const Sink& sink);

  const Reference& reference() const { return reference_; }

 private:
  Session(Reference reference, std::string origin, Credentials credentials,
          std::shared_ptr<const http::TlsContext> trust, std::shared_ptr<Patience> patience,
          std::unique_ptr<http::Client> client);
  struct Wanted {
    std::string accept;
    uint64_t from;  // the byte to begin with
    const Sink& sink;
  };
  Result<http::Headers> Get(const std::string& path, const Wanted& wanted);
  Result<http::Response> Ask(http::Client& client, const std::string& target, const Wanted& wanted,
                             const std::string& authorization);
  Status Authenticate(std::string_view challenge);
  Result<std::string> FetchToken(const std::string& url);
  Result<http::Response> Follow(http::Response response, const Wanted& wanted);
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
