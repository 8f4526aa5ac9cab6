// Signed routes (OSEP-0011): a URL that opens one port of one sandbox until a moment, for clients
// that cannot send a header, such as browsers.
//
// What is signed is five lines, each ended by a newline: "v1", "short", sandbox id, port, expiry in
// base 36. The signature is the first 8 hexadecimal digits of SHA-256 over (secret's length as 4
// bytes big-endian, secret, text's length likewise, text), and the id of the key.
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

// Lower case, without leading zeros: at most 13 characters.
std::string ToBase36(uint64_t number);
std::optional<uint64_t> FromBase36(std::string_view text);

std::string SignRoute(const RouteKey& key, std::string_view sandbox_id, int port,
                      std::string_view expires36);
// Says nothing about the time. Takes as long for every wrong signature.
bool VerifyRoute(const std::vector<RouteKey>& keys, std::string_view sandbox_id, int port,
                 std::string_view expires36, std::string_view signature);

}  // namespace atl::api
