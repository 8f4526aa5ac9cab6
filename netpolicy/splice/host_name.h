// Host names as TLS and HTTP carry them, in the form in which they are compared.
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

// Lower case, without the one dot that may stand at the end. Nothing if `text` is no host name:
// letters, digits, '-' and '_' in labels of 1 to 63, no '-' at their ends, 253 in all. Nor if its
// last label is a number: inet_aton(3) and browsers read "127.1" and "0x7f000001" as addresses.
std::optional<std::string> NormalHostName(std::string_view text);

// The 4 or 16 bytes of an address as it stands in a URL: "192.0.2.1", "[2001:db8::1]".
std::optional<std::string> HostAddressBytes(std::string_view text);

// What a Host field, or the authority of a URL, means.
struct HostField {
  // One of the two: a name as NormalHostName has it, or the bytes of an address.
  std::string name;
  std::string address;
  uint16_t port = 0;  // 0: not given
};
// Nothing if it names no server.
std::optional<HostField> ReadHostField(std::string_view text);

}  // namespace atl::netpolicy
