#include "runtime/http/client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <future>

#include "runtime/base/sys.h"
#include "runtime/http/base_url.h"
#include "tests/unit/http/socket_peer.h"

namespace atl::http {
namespace {

std::unique_ptr<Client> ClientOf(uint16_t port, bool tls = kOverTls) {
  auto client =
      Client::Create((tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port),
                     tls ? ClientTrust() : nullptr);
  EXPECT_TRUE(client.has_value());
  return std::move(*client);
}

// Answers with the peer's port, which identifies the connection, and the body.
void EchoWithPeer(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(16 << 20, [exchange](Result<std::string> body) {
    Response response;
    response.status = exchange->request().target == "/404" ? 404 : 200;
    response.headers.Add("X-Peer", exchange->request().peer);
    response.body = body.value_or("failed");
    exchange->Respond(std::move(response));
  });
}

TEST(BaseUrl, ReadsWhatPeopleWrite) {
  const auto plain = ParseBaseUrl("http://localhost:8080/");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->host, "localhost");
  EXPECT_EQ(plain->port, 8080);
  EXPECT_EQ(plain->prefix, "");
  const auto six = ParseBaseUrl("HTTP://[::1]/api/v1/");
  ASSERT_TRUE(six.has_value());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 80);
  EXPECT_EQ(six->authority, "[::1]");
  EXPECT_EQ(six->prefix, "/api/v1");
  EXPECT_FALSE(six->tls);
  const auto tls = ParseBaseUrl("https://x");
  ASSERT_TRUE(tls.has_value());
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(ParseBaseUrl("https://x:8443")->port, 8443);
}

TEST(BaseUrl, RefusesTheRest) {
  for (const char* url : {"", "localhost:8080", "https://", "ftp://x", "http://", "http://:80",
                          "http://x:", "http://x:0", "http://x:65536", "http://x:8x", "http://[::1",
                          "http://u:p@x", "http://x/a b", "http://x/a?b", "http://x\r\nEvil: 1"}) {
    EXPECT_FALSE(ParseBaseUrl(url).has_value()) << url;
  }
}

TEST(Client, KeepsItsConnection) {
  RunningServer server(EchoWithPeer);
  const auto client = ClientOf(server.port());
  std::string peer;
  for (int i = 0; i < 3; ++i) {
    Client::Call call;
    call.method = "POST";
    call.body = "body";
    const auto response = client->Send(call);
    ASSERT_TRUE(response.has_value()) << response.error().message();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "body");
    if (i > 0) {
      EXPECT_EQ(response->headers.Get("x-peer"), peer);
    }
    peer = response->headers.Get("x-peer");
  }
}

// Opens a listener for a server that the test plays.
UniqueFd ListenOnLoopback(uint16_t* port) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), generic, size), 0);
  EXPECT_EQ(listen(listener.get(), 4), 0);
  EXPECT_EQ(getsockname(listener.get(), generic, &size), 0);
  *port = ntohs(address.sin_port);
  return listener;
}

// The server promises to keep the connection, and closes it.
TEST(Client, ConnectsAgainWhenTheServerHasClosed) {
  uint16_t port = 0;
  const UniqueFd listener = ListenOnLoopback(&port);
  std::promise<void> first_closed;
  std::thread player([&] {
    for (int i = 0; i < 2; ++i) {
      Peer peer(UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      peer.ReadUntil("\r\n\r\n");
      peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
      peer.Close();
      if (i == 0) first_closed.set_value();
    }
  });
  const auto client = ClientOf(port, false);
  Client::Call post;
  post.method = "POST";  // never repeated if the server may have received it
  EXPECT_TRUE(client->Send(post).has_value());
  first_closed.get_future().wait();
  const auto again = client->Send(post);
  EXPECT_TRUE(again.has_value()) << again.error().message();
  player.join();
}

TEST(Client, InterimAnswersHaveAnEnd) {
  uint16_t port = 0;
  const UniqueFd listener = ListenOnLoopback(&port);
  std::thread player([&] {
    for (const int number : {256, 257}) {
      Peer peer(UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      peer.ReadUntil("\r\n\r\n");
      std::string heads;
      for (int i = 0; i < number; ++i) heads += "HTTP/1.1 102 \r\n\r\n";
      peer.Send(heads + "HTTP/1.1 204 \r\nConnection: close\r\n\r\n");
    }
  });
  const auto client = ClientOf(port, false);
  EXPECT_TRUE(client->Send({}).has_value());
  EXPECT_FALSE(client->Send({}).has_value());
  player.join();
}

TEST(Client, SendsAFileAndReportsProgress) {
  RunningServer server(EchoWithPeer);
  const auto client = ClientOf(server.port());
  const UniqueFd fd(memfd_create("body", MFD_CLOEXEC));
  const std::string body(5'000'000, 'f');
  ASSERT_TRUE(sys::WriteAll(fd.get(), body).has_value());
  uint64_t last = 0;
  Client::Call call;
  call.method = "PUT";
  call.body_fd = fd.get();
  call.body_size = body.size();
  call.on_progress = [&](uint64_t sent) {
    EXPECT_GT(sent, last);
    last = sent;
  };
  const auto response = client->Send(call);
  ASSERT_TRUE(response.has_value()) << response.error().message();
  EXPECT_TRUE(response->body == body);
  EXPECT_EQ(last, body.size());
}

TEST(Client, HearsARefusalWhileItStillSends) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({413, {}, "too large"});
  });
  const auto client = ClientOf(server.port());
  const UniqueFd fd(memfd_create("body", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 1 << 30), 0);
  Client::Call call;
  call.method = "PUT";
  call.body_fd = fd.get();
  call.body_size = 1 << 30;
  const auto response = client->Send(call);
  ASSERT_TRUE(response.has_value()) << response.error().message();
  EXPECT_EQ(response->body, "too large");
}

TEST(Client, StreamsWhatArrives) {
  // The test plays the upstream of a proxied stream. It sends the next piece only after the first
  // has been seen.
  UnixListener upstream;
  RunningServer server([&](const std::shared_ptr<Exchange>& exchange) {
    Upstream to;
    to.socket_path = upstream.path();
    to.target = exchange->request().target;
    exchange->Forward(std::move(to));
  });
  std::promise<void> first_seen;
  std::thread player([&] {
    Peer peer = upstream.Accept();
    peer.ReadUntil("\r\n\r\n");
    peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    first_seen.get_future().wait();
    peer.Send("3\r\ntwo\r\n0\r\n\r\n");
  });
  const auto client = ClientOf(server.port());
  std::vector<std::string> pieces;
  const auto response = client->Stream({}, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    if (pieces.size() == 1) first_seen.set_value();
    return true;
  });
  player.join();
  ASSERT_TRUE(response.has_value()) << response.error().message();
  EXPECT_EQ(pieces, (std::vector<std::string>{"one", "two"}));
}

TEST(Client, KeepsTheBodyOfAnErrorWhenStreaming) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({404, {}, "none"});
  });
  const auto response = ClientOf(server.port())->Stream({}, [](std::string_view) {
    ADD_FAILURE();
    return true;
  });
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->body, "none");
}

TEST(Client, StopsWhenToldTo) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({200, {}, std::string(1 << 20, 'x')});
  });
  const auto client = ClientOf(server.port());
  EXPECT_TRUE(client->Stream({}, [](std::string_view) { return false; }).has_value());
  EXPECT_EQ(client->Send({})->body.size(), size_t{1} << 20);
}

TEST(Client, IsCancelledThroughADescriptor) {
  std::promise<void> arrived;
  std::vector<std::shared_ptr<Exchange>> never_answered;
  RunningServer server([&](std::shared_ptr<Exchange> exchange) {
    never_answered.push_back(std::move(exchange));
    arrived.set_value();
  });
  auto pipe = sys::MakePipe();
  ASSERT_TRUE(pipe.has_value());
  std::thread canceller([&] {
    arrived.get_future().wait();
    pipe->write.reset();
  });
  Client::Call call;
  call.cancel_fd = pipe->read.get();
  const auto response = ClientOf(server.port())->Send(call);
  canceller.join();
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().error_number(), ECANCELED);
  server.OnLoop([&] { never_answered.clear(); });
}

TEST(Client, ALimitOfTimeIsToldAsSuch) {
  std::vector<std::shared_ptr<Exchange>> never_answered;
  bool over = false;
  RunningServer server([&](std::shared_ptr<Exchange> exchange) {
    // A busy machine may take the request when its time is over.
    if (!over) never_answered.push_back(std::move(exchange));
  });
  Client::Call call;
  call.limit_us = 50'000;
  const auto response = ClientOf(server.port())->Send(call);
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code(), Code::kUnavailable);
  EXPECT_EQ(response.error().error_number(), ETIMEDOUT);
  EXPECT_NE(response.error().message().find("no answer within"), std::string::npos)
      << response.error().message();
  server.OnLoop([&] {
    over = true;
    never_answered.clear();
  });
}

TEST(Client, ReportsWhatItCannotReach) {
  uint16_t port = 0;
  {
    RunningServer server(EchoWithPeer);
    port = server.port();
  }
  const auto response = ClientOf(port)->Send({});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().code(), Code::kUnavailable);
  EXPECT_NE(response.error().message().find("Connection refused"), std::string::npos);
}

TEST(Client, ReportsAnAnswerThatIsCutOff) {
  UnixListener upstream;
  RunningServer server([&](const std::shared_ptr<Exchange>& exchange) {
    Upstream to;
    to.socket_path = upstream.path();
    to.target = "/";
    exchange->Forward(std::move(to));
  });
  std::thread player([&] {
    Peer peer = upstream.Accept();
    peer.ReadUntil("\r\n\r\n");
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  const auto response = ClientOf(server.port())->Send({});
  player.join();
  ASSERT_FALSE(response.has_value());
  EXPECT_NE(response.error().message().find("broke off"), std::string::npos);
}

}  // namespace
}  // namespace atl::http
