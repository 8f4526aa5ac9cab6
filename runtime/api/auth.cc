#include "runtime/api/auth.h"

namespace atl::api {
namespace {

bool IsLoopbackAuthority(std::string_view authority) {
  const size_t port = authority.rfind(':');
  const std::string_view host = authority.ends_with(']') || port == std::string_view::npos
                                    ? authority
                                    : authority.substr(0, port);
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

bool IsLoopbackOrigin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return IsLoopbackAuthority(origin.substr(scheme.size()));
  }
  return false;
}

}  // namespace

bool SameSecret(std::string_view given, std::string_view expected) {
  // The length is not the secret; what is compared does not depend on where they differ. volatile:
  // an optimiser may not turn this into an early exit.
  volatile unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<unsigned char>(i < given.size() ? given[i] : 0);
    const auto b = static_cast<unsigned char>(expected[i]);
    difference = difference | static_cast<unsigned>(a ^ b);
  }
  return difference == 0;
}

Parsed<void> Authorise(const http::Request& request, const std::string& api_key) {
  if (api_key.empty()) {
    const std::string_view origin = request.headers.Get("Origin");
    if ((!origin.empty() && !IsLoopbackOrigin(origin)) ||
        !IsLoopbackAuthority(request.headers.Get("Host"))) {
      return Refuse(403, "FORBIDDEN_ORIGIN",
                    "this daemon runs without an API key and answers programs of this host only, "
                    "not web pages; configure server.api_key");
    }
    return {};
  }
  const std::string_view given = request.headers.Get(kApiKeyHeader);
  if (given.empty()) {
    return Refuse(401, "MISSING_API_KEY",
                  "Authentication credentials are missing. Provide an API key via the "
                  "OPEN-SANDBOX-API-KEY header.");
  }
  if (!SameSecret(given, api_key)) {
    return Refuse(401, "INVALID_API_KEY",
                  "Authentication credentials are invalid. Check the value of the "
                  "OPEN-SANDBOX-API-KEY header.");
  }
  return {};
}

}  // namespace atl::api
