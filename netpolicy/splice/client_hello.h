// A strict parser of the first message of TLS (RFC 8446 section 4.1.2, and all versions since 3.0):
// enough to know which name the client asks for. The message may span several records and reads.
// Whatever cannot be parsed completely is refused, because a server might read it differently.
//
// Thread rule: pure functions on borrowed bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace atl::netpolicy {

// Longest hello, with its record headers. Hellos with post-quantum keys have 2 KiB.
inline constexpr size_t kMaxClientHello = 16 * 1024;
inline constexpr uint8_t kTlsHandshakeRecord = 22;
inline constexpr size_t kTlsRecordHeader = 5;         // type, version, length
inline constexpr uint8_t kTlsClientHelloMessage = 1;  // handshake message type

struct ClientHello {
  std::string name;  // form of NormalHostName; "" if the client names no server
  // True if the hello hides another hello (encrypted_client_hello, RFC 9849) or its name (the older
  // ESNI), or pretends to. By design, these cannot be told apart.
  bool encrypted = false;
  bool early_data = false;  // the client sends data before the server has answered
};

struct ClientHelloRead {
  enum class State : uint8_t { kMore, kWhole, kRefused };
  State state = State::kMore;
  ClientHello hello;             // valid for kWhole
  size_t size = 0;               // valid for kWhole: size of its records
  const char* reason = nullptr;  // set for kRefused
};

// Parses `bytes`, which are all that the client has sent so far.
ClientHelloRead ReadClientHello(std::span<const uint8_t> bytes);
// Parses `message`, one whole handshake message without its record headers. Never returns kMore;
// `size` is 0.
ClientHelloRead ReadClientHelloMessage(std::span<const uint8_t> message);
// Returns the size of a handshake message, including the header at the beginning of `message`.
// Empty if the header is incomplete.
std::optional<size_t> TlsMessageSize(std::span<const uint8_t> message);

}  // namespace atl::netpolicy
