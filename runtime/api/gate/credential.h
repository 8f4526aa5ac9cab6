// Finds API keys and endpoint tokens of any tenant in texts that a sandbox would get.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace atl::api {

// Decodes %XX byte by byte and once, so that a malformed escape elsewhere hides nothing.
std::string DecodeEscapes(std::string_view text);

// Returns true if the text holds something in the form of a key of the store (key_store.h) or of an
// endpoint's token (endpoint_token.h), right or wrong: plain, percent-encoded, or in the base64 of
// "Basic BASE64".
bool HoldsCredential(std::string_view text);

}  // namespace atl::api
