// ZMTP 3.0 with the NULL mechanism (rfc.zeromq.org/spec/23), as much as a client of Jupyter kernels
// needs: one peer over one stream, messages of frames. Bytes in, messages out; no I/O.
//
// The peer is whatever runs in the sandbox. What it can make us hold is bounded: a message by
// kMaxMessage, all unfinished messages together by kMaxHeld, frames of one by kMaxFrames. A larger
// message is passed over as it comes, without being held, and told as `oversized`; what breaks the
// grammar is an error, after which the stream is of no use.
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

// The greeting and the READY command of a socket of that type ("DEALER", "SUB"): all that this side
// says before its first message. Version 3.0, so that subscriptions are plain messages.
std::string ZmtpHello(std::string_view socket_type);
void AppendZmtpMessage(std::string* out, std::initializer_list<std::string_view> frames);

struct ZmtpMessage {
  std::vector<std::string> frames;
  bool oversized = false;  // there was one, too large to be held: no frames
};

// Thread rule: one thread for all objects.
class ZmtpReader {
 public:
  static constexpr size_t kMaxMessage = 32 << 20;
  static constexpr size_t kMaxHeld = 64 << 20;
  static constexpr size_t kMaxFrames = 256;
  static constexpr size_t kMaxCommand = 4 << 10;

  // Called for each message, within Feed. Must not destroy the reader.
  using Sink = std::function<void(ZmtpMessage)>;

  // `peer_type` is what the peer must be: "ROUTER", "PUB"; a "PUB" may be an "XPUB".
  explicit ZmtpReader(std::string_view peer_type) : peer_type_(peer_type) {}
  ZmtpReader(const ZmtpReader&) = delete;
  ZmtpReader& operator=(const ZmtpReader&) = delete;
  ~ZmtpReader() { Hold(0); }

  // The next bytes of the stream. After an error nothing more may be fed.
  Status Feed(std::string_view bytes, const Sink& sink);
  // The peer's greeting and READY have come.
  bool ready() const { return state_ > State::kReady; }

  // What all of them hold, for tests.
  static size_t held() { return g_held; }

 private:
  enum class State : uint8_t { kGreeting, kReady, kMessages };

  Status TakeGreeting();
  // The head of a frame, when it is complete.
  Status TakeHead();
  Status TakeBody(std::string_view* bytes, const Sink& sink);
  Status TakeCommand(std::string_view body);
  Status TakeReady(std::string_view properties);
  void PassOver();
  void Hold(size_t size);

  static size_t g_held;
  const std::string_view peer_type_;
  State state_ = State::kGreeting;
  std::string head_;  // the greeting, or the head of the present frame, as far as it has come
  bool in_frame_ = false;
  uint8_t flags_ = 0;
  uint64_t left_ = 0;  // of the present frame's body
  std::string command_;
  ZmtpMessage message_;
  size_t held_ = 0;  // how much of g_held is ours
};

}  // namespace atl::execd
