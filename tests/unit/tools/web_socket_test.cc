#include "tools/atoll/client/web_socket.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <future>

#include "tests/unit/http/socket_peer.h"

namespace atl::cli {
namespace {

// The test plays the server, as if behind the daemon's proxy.
class WebSocketTest : public testing::Test {
 protected:
  // Returns the result of a handshake in which `answer` makes the server's answer from the key.
  Result<WebSocket> Connect(const std::function<std::string(const std::string& key)>& answer) {
    auto connected = std::async(std::launch::async, [this] {
      const std::string url = "http://127.0.0.1:" + std::to_string(server_.port());
      return WebSocket::Connect(url, nullptr, "/ws", {});
    });
    peer_.emplace(upstream_.Accept());
    const auto keys = http::FieldsOf(peer_->ReadUntil("\r\n\r\n"), "sec-websocket-key");
    EXPECT_EQ(keys.size(), 1U);
    peer_->Send(answer(keys.empty() ? "" : keys[0]));
    return connected.get();
  }

  static std::string Switched(const std::string& accept) {
    return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Accept: " +
           accept + "\r\n\r\n";
  }

  http::UnixListener upstream_;
  http::RunningServer server_{[this](const std::shared_ptr<http::Exchange>& exchange) {
    http::Upstream to;
    to.socket_path = upstream_.path();
    to.target = "/ws";
    exchange->Forward(std::move(to));
  }};
  std::optional<http::Peer> peer_;
};

TEST_F(WebSocketTest, SendsAndReceives) {
  auto socket = Connect([](const std::string& key) {
    std::string answer = Switched(http::WebSocketAccept(key));
    http::AppendFrame(&answer, http::Opcode::kPing, "are you there");
    http::AppendFrame(&answer, http::Opcode::kText, "first");
    http::AppendCloseFrame(&answer, 1000, "");
    return answer;
  });
  ASSERT_TRUE(socket) << socket.error().message();
  std::string received;
  bool open = true;
  while (open) {
    pollfd readable{socket->fd(), POLLIN, 0};
    ASSERT_GE(poll(&readable, 1, received.empty() ? 10'000 : 0), 0);
    const auto more = socket->Receive(
        [&](bool text, std::string_view message) { received += text ? message : ""; });
    ASSERT_TRUE(more) << more.error().message();
    open = *more;
  }
  EXPECT_EQ(received, "first");
  ASSERT_TRUE(socket->SendText("hello"));
  std::string expected;  // only the length is compared, because the mask is random
  http::AppendMaskedFrame(&expected, http::Opcode::kPong, "are you there", {});
  http::AppendMaskedFrame(&expected, http::Opcode::kText, "hello", {});
  struct : http::WebSocketReader::Sink {
    void OnMessage(bool, std::string_view message) override { seen += message; }
    void OnPing(std::string_view) override {}
    void OnPong() override { seen += "pong "; }
    void OnClose(uint16_t) override {}
    std::string seen;
  } sink;
  http::WebSocketReader reader(http::WebSocketReader::From::kClient, 1000);
  ASSERT_TRUE(reader.Feed(peer_->ReadExactly(expected.size()), &sink));
  EXPECT_EQ(sink.seen, "pong hello");
}

TEST_F(WebSocketTest, BelievesOnlyTheAnswerToItsKey) {
  const auto socket = Connect([](const std::string&) {
    return Switched(http::WebSocketAccept("dGhlIHNhbXBsZSBub25jZQ=="));
  });
  ASSERT_FALSE(socket);
  EXPECT_NE(socket.error().message().find("key"), std::string::npos) << socket.error().message();
}

TEST_F(WebSocketTest, SaysWhyThereIsNone) {
  const auto socket = Connect([](const std::string&) {
    return "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot\x1bthere";
  });
  ASSERT_FALSE(socket);
  EXPECT_NE(socket.error().message().find("status 404: not"), std::string::npos)
      << socket.error().message();
  EXPECT_EQ(socket.error().message().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace atl::cli
