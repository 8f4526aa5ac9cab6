// The server's side of RFC 6455 without I/O: the handshake's answer, frames in, frames out. Fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/parser.h"

namespace atl::execd {

// The 101 head for an upgrade request; kInvalidArgument says what the request lacks.
Result<std::string> WebSocketHandshake(const http::Head& head);

class WebSocketReader {
 public:
  // A message, all its fragments together.
  static constexpr size_t kMaxMessage = 1 << 20;

  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnMessage(bool text, std::string_view message) = 0;
    virtual void OnPing(std::string_view payload) = 0;
    virtual void OnPong() = 0;
    // The peer's close frame: 1005 if it had no code.
    virtual void OnClose(uint16_t code) = 0;
  };

  // Takes in all of `bytes`. An error means that the connection must be closed with the code
  // 1002 (protocol) or, for kResourceExhausted, 1009 (too big).
  Status Feed(std::string_view bytes, Sink* sink);

 private:
  Result<bool> Frame(Sink* sink);
  Status Control(uint8_t opcode, std::string_view payload, Sink* sink);

  std::string buffer_;
  std::string message_;
  uint8_t message_opcode_ = 0;  // 0: no message begun
  bool closed_ = false;
};

enum class Opcode : uint8_t { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
// One unfragmented, unmasked frame; the payload is `first` and `second` together.
void AppendFrame(std::string* out, Opcode opcode, std::string_view first,
                 std::string_view second = {});
void AppendCloseFrame(std::string* out, uint16_t code, std::string_view reason);

}  // namespace atl::execd
