// A strict parser of the first message of TLS (RFC 8446 section 4.1.2, and all versions since 3.0):
// enough to know which name the client asks for. The message may come in several records and
// pieces. What we cannot read wholly is refused: a server might read it in another way.
//
// Thread rule: pure functions on borrowed bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace atl::netpolicy {

// With the headers of its records. Hellos with post-quantum keys have 2 KiB.
inline constexpr size_t kMaxClientHello = 16 * 1024;
inline constexpr uint8_t kTlsHandshakeRecord = 22;
inline constexpr size_t kTlsRecordHeader = 5;         // type, version, length
inline constexpr uint8_t kTlsClientHelloMessage = 1;  // of a handshake

struct ClientHello {
  std::string name;  // as NormalHostName has it; "" if the client names none
  // It hides another hello (encrypted_client_hello, RFC 9849) or its name (the older ESNI), or
  // pretends to: that cannot be told apart, by design.
  bool encrypted = false;
  bool early_data = false;  // sends data before the server has answered
};

struct ClientHelloRead {
  enum class State : uint8_t { kMore, kWhole, kRefused };
  State state = State::kMore;
  ClientHello hello;             // of kWhole
  size_t size = 0;               // of kWhole: of its records
  const char* reason = nullptr;  // of kRefused
};

// `bytes`: all that the client has sent so far.
ClientHelloRead ReadClientHello(std::span<const uint8_t> bytes);
// `message`: one whole handshake message, taken out of its records. Never kMore; `size` is 0.
ClientHelloRead ReadClientHelloMessage(std::span<const uint8_t> message);
// The size of a handshake message with its header, which are the first bytes of `message`; nothing
// if the header is not there yet.
std::optional<size_t> TlsMessageSize(std::span<const uint8_t> message);

}  // namespace atl::netpolicy
