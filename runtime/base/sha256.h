// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), from OpenSSL's libcrypto. A separate library,
// so that the static programs do not link libcrypto.
#pragma once

#include <string>
#include <string_view>

namespace atl {

// Returns 32 raw bytes.
std::string Sha256(std::string_view bytes);
std::string HmacSha256(std::string_view key, std::string_view bytes);

}  // namespace atl
