// RFC 6455 without I/O, for both ends: the handshake's answer, and frames in both directions.
//
// Thread rule: values and pure functions. The peer's input is hostile, and fuzzed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/parser.h"

namespace atl::http {

// Returns Sec-WebSocket-Accept for a Sec-WebSocket-Key.
std::string WebSocketAccept(std::string_view key);
// Returns the 101 head for an upgrade request. kInvalidArgument: the message says what the request
// lacks.
Result<std::string> WebSocketHandshake(const Head& head);

class WebSocketReader {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnMessage(bool text, std::string_view message) = 0;
    virtual void OnPing(std::string_view payload) = 0;
    virtual void OnPong() = 0;
    // The peer's close frame; 1005 if it has no code. Later frames are not read.
    virtual void OnClose(uint16_t code) = 0;
  };
  // Clients mask what they send, servers do not.
  enum class From { kClient, kServer };

  // `max_message`: most bytes of a message with all its fragments.
  WebSocketReader(From from, size_t max_message) : from_(from), max_message_(max_message) {}

  // Consumes all of `bytes`. After an error the connection must be closed with code 1002
  // (protocol), or 1009 (too big) for kResourceExhausted.
  Status Feed(std::string_view bytes, Sink* sink);

 private:
  Result<bool> Frame(Sink* sink);
  Status Control(uint8_t opcode, std::string_view payload, Sink* sink);

  From from_;
  size_t max_message_;
  std::string buffer_;
  std::string message_;
  uint8_t message_opcode_ = 0;  // 0: no message has begun
  bool closed_ = false;
};

// Finds the ends of frames in one direction of a WebSocket, without reading their payloads, so that
// a relay knows when it may add a frame of its own.
class FrameBoundary {
 public:
  void Pass(std::string_view bytes);
  // True if no frame has begun that has not ended.
  bool between_frames() const { return head_size_ == 0 && payload_left_ == 0; }

 private:
  static constexpr size_t kMaxHead = 14;
  std::array<unsigned char, kMaxHead> head_{};
  size_t head_size_ = 0;
  uint64_t payload_left_ = 0;
};

enum class Opcode : uint8_t { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };
// Appends a server's frame, unfragmented. The payload is `first` followed by `second`.
void AppendFrame(std::string* out, Opcode opcode, std::string_view first,
                 std::string_view second = {});
void AppendCloseFrame(std::string* out, uint16_t code, std::string_view reason);
// Appends a client's frame. `mask` must be random, so that no proxy on the path takes the payload
// for a request.
void AppendMaskedFrame(std::string* out, Opcode opcode, std::string_view payload,
                       const std::array<char, 4>& mask);

}  // namespace atl::http
