// HTTP through the splice proxy: every request is judged.
#include <gtest/gtest.h>

#include "netpolicy/splice/splice_proxy.h"
#include "tests/unit/netpolicy/splice_lab.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the lab

std::string Get(const std::string& host, const std::string& more = "") {
  return "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n";
}

std::string Post(const std::string& host, size_t length) {
  return "POST / HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: " + std::to_string(length) +
         "\r\n\r\n";
}

const std::string kUpgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const std::string kSwitched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class SpliceHttpTest : public SpliceTest {
 protected:
  void SetUp() override {
    SetPort(80);
    Serve("a.example", 1, listener_);
    gate.allowed.insert("b.example");
    gate.addresses["b.example"] = {Nominal(1)};  // the same server
  }
  // Opens a connection whose first request has reached the server.
  void Connect(const std::string& first) {
    Open();
    client_ = Client();
    client_.Send(first);
    server_ = AcceptAt(listener_);
    ExpectGets(server_, first);
  }
  // Expects that nothing of the last request reaches the server. The server sees the end of the
  // requests. Its last answer still reaches the client.
  void ExpectRefusedLater(const std::string& reason) {
    ExpectEnd(server_);
    EXPECT_EQ(server_.got, "");
    server_.Send(kOk);
    server_.Close();
    ExpectEnd(client_);
    EXPECT_EQ(client_.got, kOk);
    EXPECT_EQ(LastReason(), reason);
    EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
  }

  Listener listener_;
  Peer client_, server_;
};

TEST_F(SpliceHttpTest, PassesRequestsAndAnswers) {
  Connect(Get("A.example"));
  EXPECT_EQ(gate.last_port, 80);
  server_.Send(kOk);
  ExpectGets(client_, kOk);
  for (const std::string& next :
       {Get("a.example:80"), Post("a.example", 5) + "hello" + Get("a.example"),
        std::string("GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n")}) {
    client_.Send(next);
    ExpectGets(server_, next);
    server_.Send(kOk);
    ExpectGets(client_, kOk);
  }
  EXPECT_TRUE(gate.denials.empty());
  EXPECT_EQ(dialled.size(), 1U);
}

TEST_F(SpliceHttpTest, RefusesHosts) {
  Open();
  const std::pair<std::string, std::string> cases[] = {
      {Get("evil.example"), "not allowed by policy"},
      {Get("a.example:81"), "HTTP Host names another port"},
      {Get("198.51.100.200"), "no host name in HTTP"},
      {"GET / HTTP/1.0\r\n\r\n", "no host name in HTTP"},
      {Get("a.example", "Host: evil.example\r\n"), "more than one Host"},
      {"GET http://evil.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
       "Host is not the host of the request target"},
      {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", "CONNECT"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "neither HTTP/1.0 nor HTTP/1.1"},
  };
  for (const auto& [request, reason] : cases) {
    Peer client = Client();
    client.Send(request);
    ExpectStatus(client, "403 Forbidden");
    EXPECT_NE(client.got.find(reason), std::string::npos) << client.got;
    EXPECT_EQ(LastReason(), reason);
  }
  EXPECT_TRUE(dialled.empty());
}

TEST_F(SpliceHttpTest, AClientMayStillBeSendingWhenItIsRefused) {
  SpliceProxy::Limits limits;
  limits.timeouts.linger_us = 60'000'000;
  Open(limits);
  Peer client = Client();
  client.Send(Post("evil.example", 100000) + std::string(100000, 'x'));
  ExpectStatus(client, "403 Forbidden");
  // A client that never stops sending is cut.
  Peer endless = Client();
  endless.Send(Post("evil.example", 1 << 30));
  const std::string much(1 << 20, 'x');
  EXPECT_TRUE(Until([&] {
    return ::send(endless.fd(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
           errno != EAGAIN;
  }));
}

TEST_F(SpliceHttpTest, JudgesEveryRequest) {
  Connect(Get("a.example"));
  server_.Send(kOk);
  ExpectGets(client_, kOk);
  client_.Send(Get("b.example"));
  ExpectRefusedLater("HTTP request for another host on the same connection");
  ASSERT_EQ(gate.denials.size(), 1U);
  EXPECT_EQ(gate.denials[0].name, "b.example");
}

TEST_F(SpliceHttpTest, JudgesPipelinedRequests) {
  Open();
  client_ = Client();
  client_.Send(Get("a.example") + Get("a.example") + Get("b.example") + Get("a.example"));
  server_ = AcceptAt(listener_);
  ExpectGets(server_, Get("a.example") + Get("a.example"));
  ExpectRefusedLater("HTTP request for another host on the same connection");
}

TEST_F(SpliceHttpTest, AsksAgainForEveryRequest) {
  Connect(Get("a.example"));
  gate.allowed.erase("a.example");
  client_.Send(Get("a.example"));
  ExpectRefusedLater("not allowed by policy");
}

TEST_F(SpliceHttpTest, JudgesRequestsBehindBodies) {
  Connect(Post("a.example", 100'000) + "x");
  // The proxy moves the rest of the body without parsing it, and parses what follows.
  client_.Send(std::string(99'999, 'y'));
  ExpectGets(server_, std::string(99'999, 'y'));
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n";
  client_.Send(chunked);
  ExpectGets(server_, chunked);
  client_.Send(std::string(0x10000, 'z') + "\r\n0\r\n\r\n" + Get("b.example"));
  ExpectGets(server_, std::string(0x10000, 'z') + "\r\n0\r\n\r\n");
  ExpectRefusedLater("HTTP request for another host on the same connection");
}

TEST_F(SpliceHttpTest, ABodyIsNoRequest) {
  const std::string inner = Get("b.example");
  Connect(Post("a.example", inner.size()) + inner);
  client_.Send(Get("a.example"));
  ExpectGets(server_, Get("a.example"));
  EXPECT_TRUE(gate.denials.empty());
}

TEST_F(SpliceHttpTest, RefusesWhatCannotBeRead) {
  Connect(Get("a.example"));
  client_.Send("GET / HTTP/1.1\r\nHost: a.example\nX: y\r\n\r\n");
  ExpectRefusedLater("HTTP line without a carriage return");
}

TEST_F(SpliceHttpTest, AnUnfinishedRequestIsNotSent) {
  Connect(Get("a.example"));
  client_.Send("GET / HTTP/1.1\r\nHost: b.exam");
  client_.End();
  ExpectEnd(server_);
  EXPECT_EQ(server_.got, "");
  server_.Send(kOk);
  ExpectGets(client_, kOk);
}

TEST_F(SpliceHttpTest, RefusedConnectionsEndInTime) {
  SpliceProxy::Limits limits;
  limits.timeouts.linger_us = 30'000;
  Open(limits);
  client_ = Client();
  client_.Send(Get("a.example") + Get("b.example"));
  server_ = AcceptAt(listener_);
  ExpectEnd(server_);
  ExpectReset(client_);
  // The same for a client that does not read its refusal.
  Peer refused = Client();
  refused.Send(Get("evil.example"));
  EXPECT_TRUE(Until([&] { return proxy->totals().refused == 2; }));
  EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
}

TEST_F(SpliceHttpTest, SwitchedConnectionsAreOpaque) {
  Open();
  client_ = Client();
  client_.Send(Get("a.example", kUpgrade) + Get("b.example"));
  server_ = AcceptAt(listener_);
  ExpectGets(server_, Get("a.example", kUpgrade));
  server_.Send("HTTP/1.1 103 Early Hints\r\n\r\n" + kSwitched.substr(0, 7));
  server_.Send(kSwitched.substr(7) + "frame");
  ExpectGets(client_, "HTTP/1.1 103 Early Hints\r\n\r\n" + kSwitched + "frame");
  ExpectGets(server_, Get("b.example"));
  client_.Send("\x81\x05hello");
  ExpectGets(server_, "\x81\x05hello");
  server_.Send("bye");
  ExpectGets(client_, "bye");
  EXPECT_TRUE(gate.denials.empty());
}

TEST_F(SpliceHttpTest, BytesWaitForTheAnswerToAnUpgrade) {
  Open();
  client_ = Client();
  client_.Send(Get("a.example", kUpgrade) + Get("b.example"));
  server_ = AcceptAt(listener_);
  ExpectGets(server_, Get("a.example", kUpgrade));
  EXPECT_TRUE(gate.denials.empty()) << "not judged before the answer is there";
  server_.Send(kOk);
  ExpectGets(client_, kOk);
  ExpectEnd(server_);
  EXPECT_EQ(server_.got, "");
  EXPECT_EQ(LastReason(), "HTTP request for another host on the same connection");
}

TEST_F(SpliceHttpTest, ServersMayEndWithoutAnAnswerToAnUpgrade) {
  Connect(Get("a.example", kUpgrade));
  server_.Close();
  ExpectEnd(client_);
  EXPECT_TRUE(Until([&] { return proxy->connections() == 0; }));
}

TEST_F(SpliceHttpTest, RefusesUpgradesOnUsedConnections) {
  Connect(Get("a.example"));
  client_.Send(Get("a.example", kUpgrade));
  ExpectRefusedLater("HTTP upgrade on a connection that was used");
}

// HTTP/2 would carry requests that the proxy cannot judge, so the server must not see the offer.
TEST_F(SpliceHttpTest, OffersOfHttp2DoNotPass) {
  const std::string offer = "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
  Open();
  client_ = Client();
  for (int i = 0; i < 2; ++i) {
    client_.Send(Get("a.example", offer));
    if (i == 0) server_ = AcceptAt(listener_);
    ExpectGets(server_, Get("a.example"));
    server_.Send(kOk);
    ExpectGets(client_, kOk);
  }
}

TEST_F(SpliceHttpTest, JudgesByWhatIsSpokenNotByThePort) {
  Open();
  Peer tls = Client();
  tls.Send(TlsHello("a.example"));
  Peer server = AcceptAt(listener_);
  ExpectGets(server, TlsHello("a.example"));
  SetPort(443);
  Peer http = Client();
  http.Send(Get("evil.example"));
  ExpectStatus(http, "403 Forbidden");
  Peer allowed = Client();
  allowed.Send(Get("a.example"));
  server = AcceptAt(listener_);
  ExpectGets(server, Get("a.example"));
}

TEST_F(SpliceHttpTest, UnnamedRequestsGoWhereTheClientWanted) {
  gate.unnamed = true;
  servers["198.51.100.200:80"] = listener_.endpoint();
  Connect(Get("198.51.100.200"));
  client_.Send("GET / HTTP/1.0\r\n\r\n");
  ExpectGets(server_, "GET / HTTP/1.0\r\n\r\n");
  client_.Send(Get("a.example"));
  ExpectRefusedLater("HTTP request for another host on the same connection");
  Peer other = Client();
  other.Send(Get("198.51.100.1"));
  ExpectStatus(other, "403 Forbidden");
  gate.guarded.insert("198.51.100.200:80");
  Peer guarded = Client();
  guarded.Send(Get("198.51.100.200"));
  ExpectStatus(guarded, "403 Forbidden");
}

}  // namespace
}  // namespace atl::netpolicy
