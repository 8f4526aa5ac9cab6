#include "runtime/api/ingress/auth.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/api/ingress/ingress.h"
#include "runtime/base/base64.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/http/ascii.h"

namespace atl::api {
namespace {

// Returns true for "localhost" or a literal loopback address, with or without a port. A name that
// only starts like an address ("127.evil.example") is not loopback.
bool IsLoopbackAuthority(std::string_view authority) {
  const size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && !authority.ends_with(']')) {
    if (!ParsePort(authority.substr(colon + 1))) return false;
    authority = authority.substr(0, colon);
  }
  if (http::EqualNoCase(authority, "localhost") || authority == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, std::string(authority).c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

// Returns every key of the request, whichever header and however often the header is there.
std::vector<std::string_view> KeysOf(const http::Request& request) {
  std::vector<std::string_view> keys;
  for (const http::Header& header : request.headers.list) {
    std::string_view key;
    if (http::EqualNoCase(header.name, kApiKeyHeader)) key = header.value;
    if (http::EqualNoCase(header.name, "Authorization")) key = BearerIn(header.value);
    if (!key.empty()) keys.push_back(key);
  }
  return keys;
}

}  // namespace

std::string_view BearerIn(std::string_view value) {
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() < kScheme.size() ||
      !http::EqualNoCase(value.substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  return http::TrimBlanks(value.substr(kScheme.size()));
}

std::string_view BearerOf(const http::Headers& headers) {
  return BearerIn(headers.Get("Authorization"));
}

bool IsOfAPage(const http::Headers& headers) {
  if (headers.Has("Origin")) return true;
  if (headers.Has("Sec-Fetch-Site")) return headers.Get("Sec-Fetch-Site") != "none";
  return headers.Get("User-Agent").starts_with("Mozilla/");
}

std::string TokenFor(const std::string& api_key, const std::string& secret) {
  if (api_key.empty() || secret.empty()) return secret;
  return EncodeBase64Url(Sha256("atoll token\n" + api_key + "\n" + secret));
}

std::string_view KeyOf(const http::Request& request) {
  const std::string_view own = request.headers.Get(kApiKeyHeader);
  return own.empty() ? BearerOf(request.headers) : own;
}

bool HasTwoKeys(const http::Request& request) {
  const auto keys = KeysOf(request);
  return std::any_of(keys.begin(), keys.end(),
                     [&keys](std::string_view key) { return key != keys.front(); });
}

http::Response MissingKey() {
  return ErrorResponse({401, "MISSING_API_KEY",
                        "Authentication credentials are missing. Provide an API key via the "
                        "OPEN-SANDBOX-API-KEY header, or as a bearer token."});
}

http::Response InvalidKey() {
  return ErrorResponse({401, "INVALID_API_KEY",
                        "Authentication credentials are invalid. Check the value of the "
                        "OPEN-SANDBOX-API-KEY header, or of the bearer token; if both are there, "
                        "they must be the same."});
}

std::string KeyId(const std::string& secret, std::string_view key) {
  if (key.empty()) return "nobody";
  constexpr size_t kDigits = 8;
  const std::string hash = Sha256("atoll key id\n" + secret + "\n" + std::string(key));
  return "key:" + HexEncode(hash).substr(0, kDigits);
}

bool HoldsKey(const http::Request& request, const std::string& api_key) {
  const auto keys = KeysOf(request);
  return !api_key.empty() && !keys.empty() &&
         std::all_of(keys.begin(), keys.end(),
                     [&api_key](std::string_view key) { return SameSecret(key, api_key); });
}

Parsed<void> Authorise(const http::Request& request, const std::string& api_key) {
  if (api_key.empty()) {
    if (IsOfAPage(request.headers) || !IsLoopbackAuthority(request.headers.Get("Host"))) {
      return Refuse(403, "FORBIDDEN_ORIGIN",
                    "this daemon runs without an API key and answers programs of this host only, "
                    "not web pages; configure server.api_key");
    }
    return {};
  }
  if (HoldsKey(request, api_key)) return {};
  return Refuse(KeyOf(request).empty() ? MissingKey() : InvalidKey());
}

}  // namespace atl::api
