// Who may use the API: whoever knows the one key.
#pragma once

#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/http/message.h"
#include "runtime/sandbox/record/caller.h"

namespace atl::api {

inline constexpr char kApiKeyHeader[] = "OPEN-SANDBOX-API-KEY";

// Takes as long for a wrong key as for the right one, whatever they have in common.
bool SameSecret(std::string_view given, std::string_view expected);

// Whether the request has the key and no other, in OPEN-SANDBOX-API-KEY or as "Authorization:
// Bearer KEY", which programs send that know no header of ours (Prometheus). False without a key.
bool HoldsKey(const http::Request& request, const std::string& api_key);
// Returns the token that clients get in place of a sandbox's `secret`. It is derived from the API
// key as well, so it ends with the key. Without a key it is the secret.
std::string TokenFor(const std::string& api_key, const std::string& secret);
// The key that the request has, right or wrong, by either header; empty if it has none.
std::string_view KeyOf(const http::Request& request);
// Returns the name of a key in the log: "key:" and eight hex digits, or "nobody" for the empty key.
// It is keyed with `secret`, the daemon's own, so that a reader of the log cannot test keys.
std::string KeyId(const std::string& secret, std::string_view key);
// Who has the key: its one tenant, with the key's name.
sandbox::Caller CallerOf(const std::string& secret, std::string_view key);
// True for what only a web page's request looks like; see Authorise.
bool IsOfAPage(const http::Headers& headers);

// With a key: the request must have it (401), and nothing else counts: no cookie, no address, no
// origin. Without one (a daemon on loopback, by explicit switch) every local program may call, but
// no web page: a browser carries out what any site tells it to send to 127.0.0.1. Refused (403):
//   - a Host other than localhost or a loopback address: the name of a page whose DNS was rebound;
//   - an Origin, "null" included: fetch, forms, WebSockets, preflights;
//   - a Sec-Fetch-Site other than "none": images, scripts, links, redirects from a page. None of
//     our pages could say "same-origin"; "none" is what somebody typed into the address bar;
//   - a browser's User-Agent without that field: browsers from before 2020 (Safari: 2023), which
//     send their images and oldest forms without an Origin.
// Programs send none of these (Node's fetch has Sec-Fetch-Mode alone).
Parsed<void> Authorise(const http::Request& request, const std::string& api_key);

}  // namespace atl::api
