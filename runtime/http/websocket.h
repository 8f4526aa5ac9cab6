// RFC 6455 without I/O, for both ends: the handshake's answer, frames in, frames out.
//
// Thread rule: values and pure functions. What the peer sends is hostile, and fuzzed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/parser.h"

namespace atl::http {

// What Sec-WebSocket-Accept says to that Sec-WebSocket-Key.
std::string WebSocketAccept(std::string_view key);
// The 101 head for an upgrade request; kInvalidArgument says what the request lacks.
Result<std::string> WebSocketHandshake(const Head& head);

class WebSocketReader {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnMessage(bool text, std::string_view message) = 0;
    virtual void OnPing(std::string_view payload) = 0;
    virtual void OnPong() = 0;
    // The peer's close frame: 1005 if it had no code. Nothing that follows is read.
    virtual void OnClose(uint16_t code) = 0;
  };
  // A client masks what it sends, a server does not.
  enum class From { kClient, kServer };

  // `max_message`: bytes of a message, all its fragments together.
  WebSocketReader(From from, size_t max_message) : from_(from), max_message_(max_message) {}

  // Takes in all of `bytes`. An error means that the connection must be closed with the code
  // 1002 (protocol) or, for kResourceExhausted, 1009 (too big).
  Status Feed(std::string_view bytes, Sink* sink);

 private:
  Result<bool> Frame(Sink* sink);
  Status Control(uint8_t opcode, std::string_view payload, Sink* sink);

  From from_;
  size_t max_message_;
  std::string buffer_;
  std::string message_;
  uint8_t message_opcode_ = 0;  // 0: no message begun
  bool closed_ = false;
};

enum class Opcode : uint8_t { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
// A server's frame, unfragmented; the payload is `first` and `second` together.
void AppendFrame(std::string* out, Opcode opcode, std::string_view first,
                 std::string_view second = {});
void AppendCloseFrame(std::string* out, uint16_t code, std::string_view reason);
// A client's. `mask`: random, so that no proxy between takes the payload for a request.
void AppendMaskedFrame(std::string* out, Opcode opcode, std::string_view payload,
                       const std::array<char, 4>& mask);

}  // namespace atl::http
