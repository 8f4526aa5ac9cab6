// API keys and endpoint tokens in texts that a sandbox or a reader of the audit log would get.
// Found by their form: keys of the store (tenants/key_store.h) and tokens of endpoints
// (api/ingress/endpoint_token.h), right or wrong, of any tenant. Signed tokens of identity
// providers are hidden from readers; servers in sandboxes may get those that are meant for them.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace atl::api {

// Replaces each key and token by "***", and each signed token (RFC 7519) of whatever issuer.
std::string WithoutTokens(std::string_view text);

// Decodes %XX byte by byte and once, so that a malformed escape elsewhere hides nothing.
std::string DecodeEscapes(std::string_view text);

// Returns true if the text holds a key or token: plain, percent-encoded, or in the base64 of
// "Basic BASE64".
bool HoldsCredential(std::string_view text);

}  // namespace atl::api
