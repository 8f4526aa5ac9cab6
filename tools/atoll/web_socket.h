// A WebSocket client (RFC 6455), as small as a terminal needs it. What is sent may block.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/client_socket.h"
#include "runtime/http/message.h"

namespace atl::cli {

class WebSocket {
 public:
  // `base_url` as of http::Client, with `trust` if it is one of https; `target` is relative to it.
  // An answer other than 101 is an error that holds its status and text.
  static Result<WebSocket> Connect(const std::string& base_url, const http::TlsContext* trust,
                                   const std::string& target, const http::Headers& headers);

  // Readable when Receive has something to do.
  int fd() const { return socket_.fd(); }
  Status SendText(std::string_view text) { return Send(kText, text); }
  Status SendBinary(std::string_view bytes) { return Send(kBinary, bytes); }

  // Takes what has arrived and hands on whole messages; there may be nothing. False at the end.
  using OnMessage = std::function<void(bool text, std::string_view message)>;
  Result<bool> Receive(const OnMessage& on_message);

 private:
  enum Opcode : unsigned char { kContinuation, kText, kBinary, kClose = 8, kPing = 9, kPong = 10 };
  explicit WebSocket(http::ClientSocket socket) : socket_(std::move(socket)) {}
  Status Handshake(const std::string& request);
  Status Send(Opcode opcode, std::string_view payload);
  // Takes one frame off what was read; false if it is not whole yet.
  Result<bool> TakeFrame(const OnMessage& on_message);
  Status Deliver(Opcode opcode, bool final, std::string_view payload, const OnMessage& on_message);

  http::ClientSocket socket_;
  std::string pending_;
  std::string message_;
  Opcode message_kind_ = kContinuation;
  bool closed_ = false;
};

}  // namespace atl::cli
