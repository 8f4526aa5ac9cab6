// A minimal WebSocket client (RFC 6455) for terminals. Sending may block.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/client_socket.h"
#include "runtime/http/message.h"
#include "runtime/http/websocket.h"
#include "tools/atoll/client/upgrade.h"

namespace atl::cli {

class WebSocket {
 public:
  // `base_url` is that of http::Client; https needs `trust`. `target` is relative to it. An answer
  // other than 101 is an error with its status and text.
  static Result<WebSocket> Connect(const std::string& base_url, const http::TlsContext* trust,
                                   const std::string& target, http::Headers headers);

  // Returns a descriptor that is readable when Receive has work.
  int fd() const { return socket_.fd(); }
  Status SendText(std::string_view text) { return Send(http::Opcode::kText, text); }
  Status SendBinary(std::string_view bytes) { return Send(http::Opcode::kBinary, bytes); }

  // Reads the bytes that have arrived and calls `on_message` for each complete message, possibly
  // none. Returns false at the end of the connection.
  using OnMessage = std::function<void(bool text, std::string_view message)>;
  Result<bool> Receive(const OnMessage& on_message);

 private:
  struct Incoming;
  explicit WebSocket(Upgraded upgraded)
      : socket_(std::move(upgraded.socket)), pending_(std::move(upgraded.ahead)) {}
  Status Send(http::Opcode opcode, std::string_view payload);

  // Limit of a message, because a hostile sandbox must not fill our memory.
  static constexpr size_t kMaxMessage = 4 << 20;

  http::ClientSocket socket_;
  http::WebSocketReader reader_{http::WebSocketReader::From::kServer, kMaxMessage};
  std::string pending_;
};

}  // namespace atl::cli
