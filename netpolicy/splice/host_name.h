// Host names of TLS and HTTP in the form in which they are compared.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::netpolicy {

// RFC 1035 section 2.3.4, without the root's dot.
inline constexpr size_t kMaxHostName = 253;
inline constexpr size_t kMaxHostLabel = 63;

// Returns `text` in lower case, without its trailing dot. Empty if it is not a host name: letters,
// digits, '-' and '_' in labels of 1 to 63 characters, no '-' at the ends of a label, 253 in all. A
// last label that is a number is refused too, because inet_aton(3) and browsers read "127.1" and
// "0x7f000001" as addresses.
std::optional<std::string> NormalHostName(std::string_view text);

// Returns the 4 or 16 bytes of an address in URL form: "192.0.2.1", "[2001:db8::1]".
std::optional<std::string> HostAddressBytes(std::string_view text);

// A parsed Host field, or the authority of a URL.
struct HostField {
  // Exactly one is set: a name in the form of NormalHostName, or the bytes of an address.
  std::string name;
  std::string address;
  uint16_t port = 0;  // 0: not given
};
// Parses a Host field. Empty if it names no server.
std::optional<HostField> ReadHostField(std::string_view text);

}  // namespace atl::netpolicy
