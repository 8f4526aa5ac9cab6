// ZMTP 3.0 with the NULL mechanism (rfc.zeromq.org/spec/23): the part that a client of Jupyter
// kernels needs. One peer, one stream, messages of frames. Free of I/O.
//
// The peer is a program in the sandbox and hostile. Its messages are bounded: kMaxMessage bytes in
// one message, kMaxFrames frames in one message, kMaxHeld bytes in all incomplete messages
// together. The reader skips a larger message without storing it and reports it as `oversized`. A
// violation of the grammar is an error, after which the stream cannot be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

// Returns the greeting and the READY command of a socket of that type ("DEALER", "SUB"), which is
// all that this side sends before its first message. The version is 3.0, in which subscriptions are
// plain messages.
std::string ZmtpHello(std::string_view socket_type);
void AppendZmtpMessage(std::string* out, std::initializer_list<std::string_view> frames);

struct ZmtpMessage {
  std::vector<std::string> frames;
  bool oversized = false;  // the message was too large and was skipped; no frames
};

// Thread rule: one thread for all objects.
class ZmtpReader {
 public:
  static constexpr size_t kMaxMessage = 32 << 20;
  static constexpr size_t kMaxHeld = 64 << 20;
  static constexpr size_t kMaxFrames = 256;
  static constexpr size_t kMaxCommand = 4 << 10;

  // Called within Feed for each message. Must not destroy the reader.
  using Sink = std::function<void(ZmtpMessage)>;

  // `peer_type` is the socket type that the peer must announce: "ROUTER" or "PUB". An "XPUB" is
  // accepted as a "PUB".
  explicit ZmtpReader(std::string_view peer_type) : peer_type_(peer_type) {}
  ZmtpReader(const ZmtpReader&) = delete;
  ZmtpReader& operator=(const ZmtpReader&) = delete;
  ~ZmtpReader() { Hold(0); }

  // Parses the next bytes of the stream. Do not call again after an error.
  Status Feed(std::string_view bytes, const Sink& sink);
  // True once the peer's greeting and READY have arrived.
  bool ready() const { return state_ > State::kReady; }

  // Bytes that all readers hold together, for tests.
  static size_t held() { return g_held; }

 private:
  enum class State : uint8_t { kGreeting, kReady, kMessages };

  Status TakeGreeting();
  // Parses the head of a frame, once it is complete.
  Status TakeHead();
  Status TakeBody(std::string_view* bytes, const Sink& sink);
  Status TakeCommand(std::string_view body);
  Status TakeReady(std::string_view properties);
  void PassOver();
  void Hold(size_t size);

  static size_t g_held;
  const std::string_view peer_type_;
  State state_ = State::kGreeting;
  std::string head_;  // the incomplete greeting, or head of the current frame
  bool in_frame_ = false;
  uint8_t flags_ = 0;
  uint64_t left_ = 0;  // remaining bytes of the current frame's body
  std::string command_;
  ZmtpMessage message_;
  size_t held_ = 0;  // this reader's share of g_held
};

}  // namespace atl::execd
