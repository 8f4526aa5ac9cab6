// Who may use the API: whoever knows the one key.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/api_error.h"
#include "runtime/http/message.h"

namespace atl::api {

inline constexpr char kApiKeyHeader[] = "OPEN-SANDBOX-API-KEY";

// Takes as long for a wrong key as for the right one, whatever they have in common.
bool SameSecret(std::string_view given, std::string_view expected);

// With a key: it must be in the header (401). Without one (a daemon on loopback, by explicit
// switch) every local program may call, but no web page: a browser would carry out what any site
// tells it to send to 127.0.0.1, so a request with a foreign Origin or Host is refused (403).
Parsed<void> Authorise(const http::Request& request, const std::string& api_key);

}  // namespace atl::api
