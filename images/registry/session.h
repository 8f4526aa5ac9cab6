// The requests for one image: HTTPS to its registry, with credentials, following redirects to where
// the registry keeps its blobs.
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
  // `trust` verifies the certificates of the registry and of all servers that it redirects to.
  static Result<Session> Open(Reference reference, Credentials credentials,
                              std::shared_ptr<const http::TlsContext> trust,
                              std::shared_ptr<Patience> patience);

  // Sends a GET for `path` within the image's repository. `sink` gets the body and returns false to
  // stop. Returns the head of an answer with status 200. kPermissionDenied: the registry requires
  // other credentials, or denies access. kNotFound: it has no such object. kUnavailable: any
  // failure that may be temporary.
  using Sink = std::function<bool(std::string_view)>;
  Result<http::Headers> Get(const std::string& path, const std::string& accept, const Sink& sink);
  // Like Get, for content that never changes. An interrupted transfer continues where it stopped,
  // as long as bytes arrive and the deadlines allow it.
  Status GetSteadily(const std::string& path, const Sink& sink);

  const Reference& reference() const { return reference_; }

 private:
  Session(Reference reference, std::string origin, Credentials credentials,
          std::shared_ptr<const http::TlsContext> trust, std::shared_ptr<Patience> patience,
          std::unique_ptr<http::Client> client);
  struct Wanted {
    std::string accept;
    uint64_t from;  // offset of the first byte to fetch
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
  std::unique_ptr<http::Client> client_;  // connection to the registry itself
  std::string authorization_;             // sent only to the registry
};

}  // namespace atl::images::registry
