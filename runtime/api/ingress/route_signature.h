// Signed routes (OSEP-0011): a URL that opens one port of one sandbox until its expiry, for clients
// that cannot send a header, such as browsers.
//
// The signed text has five lines, each ended by a newline: "v1", "short" or "long", sandbox id,
// port, expiry in base 36. The digest is SHA-256 over (secret's length as 4 bytes big-endian,
// secret, text's length likewise, text). A signature is the beginning of the digest and the id of
// the key:
//   short  8 hexadecimal digits, 32 bits: upstream's form
//   long   11 digits of base 36 from the first 8 bytes: 56 bits. Guessing one over a network takes
//          75,000 years at 30,000 tries a second. More digits would not fit into a DNS label beside
//          the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace atl::api {

struct RouteKey {
  char id = 'a';  // [0-9a-z]
  std::string secret;
};

inline constexpr size_t kShortSignature = 9;  // characters, key id included
inline constexpr size_t kLongSignature = 12;

enum class SignatureForm { kShort, kLong };

// Lower case, without leading zeros; at most 13 characters.
std::string ToBase36(uint64_t number);
std::optional<uint64_t> FromBase36(std::string_view text);

std::string SignRoute(const RouteKey& key, SignatureForm form, std::string_view sandbox_id,
                      int port, std::string_view expires36);
// Checks the signature only, not the expiry. The form follows from the length. Constant time for
// wrong signatures of one form.
bool VerifyRoute(const std::vector<RouteKey>& keys, std::string_view sandbox_id, int port,
                 std::string_view expires36, std::string_view signature);

}  // namespace atl::api
