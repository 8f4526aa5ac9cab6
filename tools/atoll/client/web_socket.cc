#include "tools/atoll/client/web_socket.h"

#include <sys/random.h>

#include <array>
#include <utility>

#include "runtime/base/base64.h"
#include "tools/atoll/client/upgrade.h"

namespace atl::cli {
namespace {

template <size_t N>
std::array<char, N> Random() {
  std::array<char, N> bytes{};
  [[maybe_unused]] const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
  return bytes;
}

}  // namespace

// Collects the messages of one Receive.
struct WebSocket::Incoming : http::WebSocketReader::Sink {
  Incoming(WebSocket* to, const WebSocket::OnMessage& take) : socket(to), on_message(take) {}
  void OnMessage(bool text, std::string_view message) override { on_message(text, message); }
  void OnPing(std::string_view payload) override {
    if (sent) sent = socket->Send(http::Opcode::kPong, payload);
  }
  void OnPong() override {}
  void OnClose(uint16_t) override { closed = true; }

  WebSocket* socket;
  const WebSocket::OnMessage& on_message;
  Status sent;
  bool closed = false;
};

Result<WebSocket> WebSocket::Connect(const std::string& base_url, const http::TlsContext* trust,
                                     const std::string& target, http::Headers headers) {
  // Random, so that a proxy cannot be made to take our frames for another request.
  const auto random = Random<16>();
  const std::string key = EncodeBase64({random.data(), random.size()});
  headers.Set("Sec-WebSocket-Version", "13");
  headers.Set("Sec-WebSocket-Key", key);
  ATOLL_ASSIGN(Upgraded upgraded, Upgrade(base_url, trust, target, "websocket", headers));
  if (upgraded.answer.Get("sec-websocket-accept") != http::WebSocketAccept(key)) {
    return Fail(Code::kUnavailable,
                "the server's Sec-WebSocket-Accept does not fit the key that was sent");
  }
  return WebSocket(std::move(upgraded));
}

Status WebSocket::Send(http::Opcode opcode, std::string_view payload) {
  std::string frame;
  http::AppendMaskedFrame(&frame, opcode, payload, Random<4>());
  return socket_.SendAll(frame);
}

Result<bool> WebSocket::Receive(const OnMessage& on_message) {
  http::Buffer input;
  ATOLL_ASSIGN(const bool open, socket_.ReadSome(&input));
  Incoming incoming(this, on_message);
  for (const std::string_view bytes : {std::string_view(pending_), input.view()}) {
    if (const Status fed = reader_.Feed(bytes, &incoming); !fed) {
      return Fail(Error(fed.error()).Wrap("what the server sent"));
    }
  }
  pending_.clear();
  ATOLL_TRY(incoming.sent);
  return open && !incoming.closed;
}

}  // namespace atl::cli
