// One accepted connection that is forwarded to one connected server.
#include "runtime/http/sole_upstream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "runtime/base/sys.h"
#include "tests/unit/http/socket_peer.h"

namespace atl::http {
namespace {

constexpr char kAsk[] = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

void Unblock(const UniqueFd& fd) {
  ASSERT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
}

class SoleTest : public testing::Test {
 protected:
  SoleTest() : loop_([](const std::shared_ptr<Exchange>& exchange) { exchange->Respond({}); }) {}
  // The peers have gone. Their connections have to end before the loop does.
  ~SoleTest() override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (closed_ < served_ && std::chrono::steady_clock::now() < deadline) loop_.OnLoop([] {});
    EXPECT_EQ(closed_, served_);
    // Callbacks that still wait on the loop must run, too.
    for (int turn = 0; turn < 3; ++turn) loop_.OnLoop([] {});
  }

  // Returns the client's end of a connection that is forwarded to the server behind `server`.
  Peer Serve(UniqueFd server, const std::shared_ptr<const TlsContext>& trust = nullptr,
             const std::string& name = {}) {
    auto client = sys::UnixPair(SOCK_STREAM);
    Unblock(client->b);
    Unblock(server);
    loop_.OnLoop([&] {
      auto sole = SoleUpstream::Create(loop_.loop(), std::move(server), trust, name);
      ASSERT_TRUE(sole);
      auto finish = ServeConnection(
          loop_.loop(), config_,
          [this, sole = *sole](const std::shared_ptr<Exchange>& exchange) {
            Upstream upstream;
            upstream.sole = sole;
            upstream.target = exchange->request().target;
            upstream.on_error = [](const Error& error) {
              return Response{502, {}, error.message()};
            };
            upstream.keeps_protocol = upstream.drops_reason = true;
            if (exchange->request().method == "GET") return exchange->Forward(std::move(upstream));
            exchange->ReadBody(1 << 20, [exchange, upstream](Result<std::string> body) mutable {
              upstream.body = std::make_shared<const std::string>("<" + *body + ">");
              upstream.set_headers = {{"Content-Length", std::to_string(upstream.body->size())}};
              exchange->Forward(std::move(upstream));
            });
          },
          std::move(client->b), [this] { ++closed_; });
      ASSERT_TRUE(finish);
      ++served_;
      (*sole)->OnEnd(std::move(*finish));
    });
    return Peer(std::move(client->a));
  }

  // Plays a server that answers one request of the client's and closes.
  static void AnswerAndEnd(UniqueFd end, Peer& client) {
    Peer server(std::move(end));
    client.Send(kAsk);
    server.ReadUntil("\r\n\r\n");
    server.Send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    client.ReadResponse();
  }

  ServerConfig config_;
  int served_ = 0;
  std::atomic<int> closed_ = 0;
  RunningServer loop_;
};

TEST_F(SoleTest, ManyRequestsGoOverOneConnection) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a));
  Peer server(std::move(pair->b));
  for (const char* word : {"one", "two", "three"}) {
    client.Send(kAsk);
    server.ReadUntil("\r\n\r\n");
    server.Send(std::string("HTTP/1.1 200 ") + word + "\r\nContent-Length: 1\r\n\r\n" + word[0]);
    const std::string answer = client.ReadResponse();
    EXPECT_EQ(BodyOf(answer), std::string(1, word[0]));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  }
}

TEST_F(SoleTest, AnotherBodyIsSentInThePlaceOfAChunkedOne) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a));
  Peer server(std::move(pair->b));
  client.Send(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n");
  EXPECT_EQ(server.ReadUntil("\r\n\r\n"),
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(server.ReadExactly(4), "<ab>");
  server.Send("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_TRUE(client.ReadUntil("\r\n\r\n").starts_with("HTTP/1.1 204 "));
}

TEST_F(SoleTest, AChangeOfProtocolIsLeftOut) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a));
  Peer server(std::move(pair->b));
  client.Send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  EXPECT_EQ(server.ReadUntil("\r\n\r\n"), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
}

TEST_F(SoleTest, TheClientSeesWhatTheServerDoes) {
  // The server announces the close.
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a));
  {
    Peer server(std::move(pair->b));
    client.Send(kAsk);
    server.ReadUntil("\r\n\r\n");
    server.Send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na");
  }
  const std::string last = client.ReadToEnd();
  EXPECT_NE(last.find("Connection: close"), std::string::npos);
  // The server closes between two requests. The second one gets no answer, so the client may repeat
  // it.
  auto other = sys::UnixPair(SOCK_STREAM);
  Peer again = Serve(std::move(other->a));
  AnswerAndEnd(std::move(other->b), again);
  again.TrySend(kAsk);
  EXPECT_EQ(again.ReadToEnd(), "");
}

TEST_F(SoleTest, AHalfClosedClientIsAnsweredWhereThatIsWanted) {
  for (const bool wanted : {true, false}) {
    config_.answers_half_closed = wanted;
    auto pair = sys::UnixPair(SOCK_STREAM);
    Peer client = Serve(std::move(pair->a));
    Peer server(std::move(pair->b));
    client.Send(kAsk);
    client.ShutdownWrite();
    server.ReadUntil("\r\n\r\n");
    if (!wanted) {
      EXPECT_EQ(server.ReadToEnd(), "");
    }
    server.TrySend("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    EXPECT_EQ(client.ReadToEnd().ends_with("a"), wanted);
  }
}

TEST_F(SoleTest, AServerThatEndsEndsAnIdleClient) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a));
  AnswerAndEnd(std::move(pair->b), client);
  EXPECT_EQ(client.ReadToEnd(), "") << "without having asked again";
}

TEST_F(SoleTest, ARequestKeepsWhomItIsFor) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a));
  Peer server(std::move(pair->b));
  client.Send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Host, X-Gone\r\nX-Gone: 1\r\n\r\n");
  EXPECT_EQ(server.ReadUntil("\r\n\r\n"), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
}

TEST_F(SoleTest, TellsOfItsEndOnce) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  { const Peer client = Serve(std::move(pair->a)); }
  Peer server(std::move(pair->b));
  EXPECT_EQ(server.ReadToEnd(), "");
  std::promise<void> turned;
  loop_.loop().Post([&] { turned.set_value(); });
  turned.get_future().get();
  loop_.OnLoop([&] { EXPECT_EQ(closed_, 1); });
}

class OverTls : public SoleTest {
 protected:
  OverTls()
      : server_(
            [](const std::shared_ptr<Exchange>& exchange) {
              exchange->Respond({200, {}, exchange->request().tls ? "encrypted" : "plain"});
            },
            WithTls()) {}

  static ServerConfig WithTls() {
    ServerConfig config;
    config.tls = ServerTls();
    return config;
  }

  UniqueFd ToServer() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  RunningServer server_;
};

TEST_F(OverTls, TheServerHasToProveItsName) {
  Peer client = Serve(ToServer(), ClientTrust(), "localhost");
  for (int round = 0; round < 2; ++round) {
    client.Send(kAsk);
    EXPECT_EQ(BodyOf(client.ReadResponse()), "encrypted");
  }
  Peer misled = Serve(ToServer(), ClientTrust(), "other.example");
  misled.Send(kAsk);
  EXPECT_EQ(BodyOf(misled.ReadResponse()),
            "the certificate of other.example is not accepted: hostname mismatch");
  Peer foreign = Serve(ToServer(), *TlsContext::ForClient(""), "localhost");
  foreign.Send(kAsk);
  EXPECT_NE(BodyOf(foreign.ReadResponse()).find("is not accepted: self-signed certificate"),
            std::string::npos);
}

TEST_F(OverTls, WhoLeavesWhileTheServerShakesHandsIsGone) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer server(std::move(pair->b));
  {
    Peer client = Serve(std::move(pair->a), ClientTrust(), "localhost");
    client.Send(kAsk);
  }
  // The server never answers its part of the handshake.
  server.ReadToEnd();
  loop_.OnLoop([&] { EXPECT_EQ(closed_, 1); });
}

TEST_F(OverTls, AServerThatDoesNotSpeakItIsNoServer) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  Peer client = Serve(std::move(pair->a), ClientTrust(), "localhost");
  Peer server(std::move(pair->b));
  client.Send(kAsk);
  server.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(client.ReadResponse().starts_with("HTTP/1.1 502 "));
}

}  // namespace
}  // namespace atl::http
