// Signed routes (OSEP-0011): a URL that opens one port of one sandbox until a moment, for clients
// that cannot send a header, such as browsers.
//
// What is signed is five lines, each ended by a newline: "v1", "short" or "long", sandbox id, port,
// expiry in base 36; the digest is SHA-256 over (secret's length as 4 bytes big-endian, secret,
// text's length likewise, text). A signature is the beginning of it and the id of the key:
//   short  8 hexadecimal digits, 32 bits: upstream's
//   long   11 digits of base 36, of its first 8 bytes: 56 bits, which nobody guesses over a network
//          (75,000 years at 30,000 tries a second), and as many as fit into a DNS label beside the
//          rest
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

// Lower case, without leading zeros: at most 13 characters.
std::string ToBase36(uint64_t number);
std::optional<uint64_t> FromBase36(std::string_view text);

std::string SignRoute(const RouteKey& key, SignatureForm form, std::string_view sandbox_id,
                      int port, std::string_view expires36);
// Says nothing about the time. The form follows from the length. Takes as long for every wrong
// signature of a form.
bool VerifyRoute(const std::vector<RouteKey>& keys, std::string_view sandbox_id, int port,
                 std::string_view expires36, std::string_view signature);

}  // namespace atl::api
