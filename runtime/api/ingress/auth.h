// Authentication of API requests. A daemon has one key; its holder may do everything.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/http/message.h"

namespace atl::api {

inline constexpr char kApiKeyHeader[] = "OPEN-SANDBOX-API-KEY";

// Returns true if the request has the key and no other, in OPEN-SANDBOX-API-KEY or as
// "Authorization: Bearer KEY". The second is for programs that cannot send our header, such as
// Prometheus. False if `api_key` is empty.
bool HoldsKey(const http::Request& request, const std::string& api_key);
// Returns the token that clients get in place of a sandbox's `secret`. It is derived from the API
// key as well, so it ends with the key. Without a key it is the secret.
std::string TokenFor(const std::string& api_key, const std::string& secret);
// Returns the token of "Authorization: Bearer TOKEN" (RFC 6750); empty if there is none.
std::string_view BearerOf(const http::Headers& headers);
// Returns the token of one value of Authorization; empty if it is of another scheme.
std::string_view BearerIn(std::string_view value);
// Returns the key of the request, right or wrong, from either header; empty if it has none.
std::string_view KeyOf(const http::Request& request);
// Returns true if the headers have two keys that differ, also in two headers of one name.
bool HasTwoKeys(const http::Request& request);
// Refusals of a request without a key, and of one whose key is not right. The second says no more:
// an unknown, an expired and a revoked key get the same answer.
http::Response MissingKey();
http::Response InvalidKey();
// Returns the name of a key in the log: "key:" and eight hex digits, or "nobody" for the empty key.
// It is keyed with `secret`, the daemon's own, so that a reader of the log cannot test keys.
std::string KeyId(const std::string& secret, std::string_view key);
// Returns true if only a web page can have sent these headers; see Authorise.
bool IsOfAPage(const http::Headers& headers);

// Checks that the request may use the API. If the daemon has a key, the request must carry it
// (401); cookies, addresses and origins do not matter. A daemon without a key listens on loopback,
// by explicit switch. Then every local program may call, but no web page, because a browser sends
// requests to 127.0.0.1 for any site. Refused with 403:
//   - a Host other than localhost or a loopback address: the name of a page after DNS rebinding;
//   - an Origin, "null" included: fetch, forms, WebSockets, preflights;
//   - a Sec-Fetch-Site other than "none": images, scripts, links and redirects from a page. Atoll
//   has
//     no page that could send "same-origin". "none" is an address that a user typed;
//   - a browser's User-Agent without that field: browsers from before 2020 (Safari: 2023), which
//     send their images and oldest forms without an Origin.
// Programs send none of these. Node's fetch sends Sec-Fetch-Mode alone.
Parsed<void> Authorise(const http::Request& request, const std::string& api_key);

}  // namespace atl::api
