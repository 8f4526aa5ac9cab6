#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/unit/http/socket_peer.h"

namespace atl::http {
namespace {

// Returns true if `size` bytes arrive in the socket within 300 ms.
bool ComesToHold(int socket, size_t size) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  int waiting = 0;
  while (ioctl(socket, FIONREAD, &waiting) == 0 && static_cast<size_t>(waiting) < size) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A server that forwards everything, with the raw target, to a socket on which the test listens.
class Forwarded : public testing::Test {
 protected:
  Forwarded()
      : server_([this](const std::shared_ptr<Exchange>& exchange) {
          if (const auto key = exchange->request().headers.Get("X-Key"); !key.empty()) {
            exchange->SetAuthority(std::string(key));
          }
          Upstream upstream;
          upstream.socket_path = upstream_.path();
          upstream.target = exchange->request().target;
          upstream.tap = tap_;
          upstream.drop_headers = {"cookie", "OPEN-SANDBOX-API-KEY"};
          upstream.set_headers = {{"Host", "127.0.0.1:44772"}, {"X-Forwarded-For", "1.2.3.4"}};
          ++held_;
          upstream.held = std::shared_ptr<const void>(&held_, [this](const void*) { --held_; });
          const auto reason = std::make_shared<std::string>("upstream");
          upstream.on_error = [reason](const Error& error) {
            return Response{502, {}, *reason + ": " + error.message()};
          };
          if (exchange->request().headers.Has("X-Await")) {
            upstream.await_reason = [reason](const Error&, const auto& go_on) {
              *reason = "awaited";
              go_on();
            };
          }
          if (exchange->request().headers.Has("X-Edit")) {
            upstream.edit_response = [](int status, Headers* fields) {
              fields->Remove("X-Bad");
              fields->Add("X-Policy", std::to_string(status));
            };
          }
          if (exchange->request().headers.Has("X-Edit-Body")) {
            upstream.edit_body = [](const std::string& body, int* status, Headers* fields) {
              if (body == "refuse") {
                *status = 409;
                fields->Set("X-Why", "said");
              }
              return body == "same" ? body : "<" + body + ">";
            };
          }
          exchange->Forward(std::move(upstream));
        }) {}

  static std::string Get(const std::string& target, const std::string& fields = "") {
    return "GET " + target + " HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
  }

  void Revoke(const std::string& key) {
    server_.OnLoop([&] {
      server_.server().EndExchanges([&](const std::string& authority) { return authority == key; });
    });
  }
  size_t OpenStreams() {
    size_t open = 0;
    server_.OnLoop([&] { open = server_.server().open_streams(); });
    return open;
  }

  // Returns true if everything that exchanges hold is released within 10 s.
  bool LetsGo() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (held_ != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return held_ == 0;
  }

  std::atomic<int> held_ = 0;
  std::shared_ptr<TunnelTap> tap_;  // sees the tunnel of the next request
  UnixListener upstream_;
  RunningServer server_;
};

TEST_F(Forwarded, HoldsWhatItIsGivenUntilItsAnswerIsThrough) {
  Peer client = server_.Connect();
  for (int round = 0; round < 2; ++round) {
    client.Send(Get("/stream"));
    Peer upstream = upstream_.Accept();
    upstream.ReadUntil("\r\n\r\n");
    upstream.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    client.ReadUntil("a\r\n");
    EXPECT_EQ(held_, 1);
    if (round == 0) {
      upstream.Send("0\r\n\r\n");
      client.ReadUntil("0\r\n\r\n");
      upstream.Close();
    } else {
      client.Close();
    }
    EXPECT_TRUE(LetsGo()) << round;
  }
}

TEST_F(Forwarded, PassesTargetAndFieldsAndStripsWhatIsNotForTheUpstream) {
  Peer client = server_.Connect();
  client.Send(
      Get("/a%2Fb/../c?x=%20&x=+&y",
          "X-One: 1\r\nCookie: secret\r\nopen-sandbox-api-key: key\r\nX-Multi: a\r\n"
          "X-Multi: b\r\nConnection: X-Hop, keep-alive\r\nX-Hop: gone\r\nTE: trailers\r\n"
          "Keep-Alive: timeout=5\r\nProxy-Authorization: no\r\nX-Forwarded-For: forged\r\n"));
  Peer upstream = upstream_.Accept();
  EXPECT_EQ(upstream.ReadUntil("\r\n\r\n"),
            "GET /a%2Fb/../c?x=%20&x=+&y HTTP/1.1\r\nX-One: 1\r\nX-Multi: a\r\nX-Multi: b\r\n"
            "Host: 127.0.0.1:44772\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
  upstream.Send(
      "HTTP/1.1 207 Odd Reason\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2, c\r\n"
      "Connection: X-Gone\r\nX-Gone: 1\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(client.ReadResponse(),
            "HTTP/1.1 207 Odd Reason\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2, c\r\n"
            "Content-Length: 4\r\n\r\nbody");
}

TEST_F(Forwarded, WhatIsSetOnTheAnswerStays) {
  Peer client = server_.Connect();
  client.Send(Get("/", "X-Edit: 1\r\n"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  // The upstream cannot avoid it by calling the header hop-by-hop, nor by interim answers.
  upstream.Send(
      "HTTP/1.1 103 Early Hints\r\nX-Bad: 1\r\nLink: x\r\n\r\n"
      "HTTP/1.1 200 OK\r\nX-Bad: 1\r\nConnection: X-Policy\r\nX-Policy: none\r\n"
      "Content-Length: 2\r\n\r\nok");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"),
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\nX-Policy: 103\r\n\r\n");
  EXPECT_EQ(client.ReadResponse(),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Policy: 200\r\n\r\nok");
}

TEST_F(Forwarded, EditsABodyThatSaysItsLength) {
  const auto answer = [this](const std::string& fields, const std::string& target,
                             std::initializer_list<const char*> pieces) {
    Peer client = server_.Connect();
    client.Send(Get(target, "Connection: close\r\n" + fields));
    Peer upstream = upstream_.Accept();
    upstream.ReadUntil("\r\n\r\n");
    for (const char* piece : pieces) upstream.Send(piece);
    return client.ReadToEnd();
  };
  const auto ends = [](const std::string& text, const char* body) {
    return text.ends_with(std::string("\r\n\r\n") + body);
  };
  const std::string edit = "X-Edit-Body: 1\r\n";
  const std::string whole =
      answer(edit, "/", {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc", "def"});
  EXPECT_TRUE(ends(whole, "<abcdef>")) << whole;
  EXPECT_EQ(FieldsOf(whole, "content-length"), std::vector<std::string>{"8"});
  EXPECT_TRUE(ends(answer(edit, "/", {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}), "<>"));
  // Headers that describe the bytes are dropped if the bytes change, and only then.
  for (const auto& [body, kept] : {std::pair("abcd", 0U), std::pair("same", 1U)}) {
    const std::string head =
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: \"1\"\r\nLast-Modified: x\r\n"
        "Repr-Digest: x\r\nX-Other: x\r\n\r\n";
    const std::string told = answer(edit, "/", {head.c_str(), body});
    for (const char* name : {"etag", "last-modified", "repr-digest"}) {
      EXPECT_EQ(FieldsOf(told, name).size(), kept) << name << " of " << body;
    }
    EXPECT_EQ(FieldsOf(told, "x-other").size(), 1U);
  }
  // An answer that does not announce a small size, or that is encoded, passes unchanged.
  EXPECT_TRUE(ends(answer(edit, "/",
                          {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n"
                           "\r\nabc"}),
                   "abc"));
  EXPECT_TRUE(ends(answer(edit, "/", {"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nabc"}), "abc"));
  const std::string large =
      "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kMaxEditedBody + 1) + "\r\n\r\n" +
      std::string(kMaxEditedBody + 1, 'x');
  const std::string passed = answer(edit, "/", {large.c_str()});
  EXPECT_TRUE(passed.ends_with("xx"));
  EXPECT_EQ(answer(edit, "/",
                   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n"})
                .find('<'),
            std::string::npos);
}

TEST_F(Forwarded, ConnectionFieldCannotStripTheLength) {
  Peer client = server_.Connect();
  client.Send(
      "POST / HTTP/1.1\r\nHost: h\r\nConnection: content-length\r\nContent-Length: 3\r\n"
      "\r\nabc");
  Peer upstream = upstream_.Accept();
  const std::string head = upstream.ReadUntil("\r\n\r\n");
  EXPECT_EQ(FieldsOf(head, "content-length"), std::vector<std::string>{"3"});
  EXPECT_EQ(upstream.ReadExactly(3), "abc");
}

TEST_F(Forwarded, StreamsChunksAsTheyCome) {
  Peer client = server_.Connect();
  client.Send(Get("/events"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(FieldsOf(client.ReadUntil("\r\n\r\n"), "transfer-encoding"),
            std::vector<std::string>{"chunked"});
  // The upstream sends the next piece only after the last one has arrived.
  for (const std::string piece : {"one", "two", "three"}) {
    upstream.Send(std::to_string(piece.size()) + "\r\n" + piece + "\r\n");
    EXPECT_EQ(client.ReadUntil(piece + "\r\n"),
              std::to_string(piece.size()) + "\r\n" + piece + "\r\n");
  }
  upstream.Send("0\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
}

TEST_F(Forwarded, StreamsTheRequestBodyAsItComes) {
  Peer client = server_.Connect();
  client.Send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  Peer upstream = upstream_.Accept();
  EXPECT_EQ(FieldsOf(upstream.ReadUntil("\r\n\r\n"), "transfer-encoding").size(), 1U);
  client.Send("3\r\nabc\r\n");
  EXPECT_EQ(upstream.ReadUntil("abc\r\n"), "3\r\nabc\r\n");
  client.Send("2\r\nde\r\n0\r\nTrailer: no\r\n\r\n");
  EXPECT_EQ(upstream.ReadUntil("0\r\n\r\n"), "2\r\nde\r\n0\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().substr(0, 12), "HTTP/1.1 200");
}

TEST_F(Forwarded, AsksTheClientToContinueByItself) {
  Peer client = server_.Connect();
  client.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  Peer upstream = upstream_.Accept();
  EXPECT_TRUE(FieldsOf(upstream.ReadUntil("\r\n\r\n"), "expect").empty());
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_EQ(upstream.ReadExactly(3), "abc");
  upstream.Send(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
      "HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST_F(Forwarded, CarriesLargeBodiesBothWays) {
  const std::string body(5'000'000, 'b');
  Peer client = server_.Connect();
  std::thread sender(
      [&] { client.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n" + body); });
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  EXPECT_TRUE(upstream.ReadExactly(body.size()) == body);
  sender.join();
  std::thread answerer(
      [&] { upstream.Send("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + body); });
  EXPECT_TRUE(BodyOf(client.ReadResponse()) == body);
  answerer.join();
}

TEST_F(Forwarded, HoldsBackAnUpstreamWhoseClientDoesNotRead) {
  Peer client = server_.Connect();
  client.Send(Get("/"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\n\r\n");
  // Socket buffers and our own hold some of it, far less than the upstream offers.
  const timeval patience{0, 100'000};
  setsockopt(upstream.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  EXPECT_FALSE(upstream.TrySend(std::string(64 << 20, 'x')));
}

TEST_F(Forwarded, ABodyDelimitedByTheEndBecomesChunked) {
  Peer client = server_.Connect();
  client.Send(Get("/"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.0 200 OK\r\n\r\nabc");
  EXPECT_EQ(BodyOf(client.ReadUntil("abc\r\n")), "3\r\nabc\r\n");
  upstream.Close();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  client.Send(Get("/again"));  // the client's connection goes on
  EXPECT_NE(upstream_.Accept().ReadUntil("\r\n").find("/again"), std::string::npos);
}

TEST_F(Forwarded, AnHttp10ClientGetsAPlainBody) {
  Peer client = server_.Connect();
  client.Send("GET / HTTP/1.0\r\n\r\n");
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  bool reset = true;
  EXPECT_EQ(BodyOf(client.ReadToEnd(&reset)), "abc");
  EXPECT_FALSE(reset);
}

TEST_F(Forwarded, AnHttp10ClientSeesAResetIfTheBodyIsCutOff) {
  Peer client = server_.Connect();
  client.Send("GET / HTTP/1.0\r\n\r\n");
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.ReadUntil("abc");
  upstream.Close();
  bool reset = false;
  client.ReadToEnd(&reset);
  EXPECT_TRUE(reset);
}

TEST_F(Forwarded, AnswerToHeadHasNoBody) {
  Peer client = server_.Connect();
  client.Send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_EQ(FieldsOf(client.ReadUntil("\r\n\r\n"), "content-length").front(), "1000");
  client.Send(Get("/next"));
  EXPECT_EQ(upstream.ReadUntil("\r\n"), "GET /next HTTP/1.1\r\n");
}

TEST_F(Forwarded, UsesAnUpstreamConnectionAgain) {
  Peer client = server_.Connect();
  client.Send(Get("/1"));
  Peer upstream = upstream_.Accept();
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(upstream.ReadUntil(" HTTP/1.1\r\n"), "GET /" + std::to_string(i) + " HTTP/1.1\r\n");
    upstream.ReadUntil("\r\n\r\n");
    upstream.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_EQ(BodyOf(client.ReadResponse()), "ok");
    client.Send(Get("/" + std::to_string(i + 1)));
  }
}

TEST_F(Forwarded, NeverUsesAConnectionAgainThatSpokeUnasked) {
  Peer client = server_.Connect();
  client.Send(Get("/1"));
  Peer first = upstream_.Accept();
  first.ReadUntil("\r\n\r\n");
  first.Send(
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
      "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
  EXPECT_EQ(BodyOf(client.ReadResponse()), "ok");
  client.Send(Get("/2"));
  Peer second = upstream_.Accept();
  second.ReadUntil("\r\n\r\n");
  second.Send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal");
  EXPECT_EQ(BodyOf(client.ReadResponse()), "real");
}

TEST_F(Forwarded, RepeatsASafeRequestOnAStaleConnectionButNoOther) {
  for (const bool safe : {true, false}) {
    Peer client = server_.Connect();
    client.Send(Get("/1"));
    Peer first = upstream_.Accept();
    first.ReadUntil("\r\n\r\n");
    first.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.ReadResponse();
    client.Send(safe ? Get("/2") : "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    first.ReadUntil("/2");  // the upstream has read it and may have acted on it …
    first.Close();          // … and never answers
    if (safe) {
      Peer second = upstream_.Accept();
      second.ReadUntil("\r\n\r\n");
      second.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
    EXPECT_EQ(client.ReadResponse().substr(0, 12), safe ? "HTTP/1.1 200" : "HTTP/1.1 502");
  }
  EXPECT_FALSE(upstream_.HasWaiting());
}

TEST_F(Forwarded, AnUpstreamThatIsNotThereIsAnError) {
  unlink(upstream_.path().c_str());
  Peer client = server_.Connect();
  client.Send(Get("/"));
  const std::string response = client.ReadResponse();
  EXPECT_EQ(response.substr(0, 12), "HTTP/1.1 502");
  EXPECT_NE(response.find("No such file"), std::string::npos);
}

TEST_F(Forwarded, AnErrorIsToldWhenItsReasonHasCome) {
  unlink(upstream_.path().c_str());
  Peer client = server_.Connect();
  client.Send(Get("/", "X-Await: 1\r\n"));
  EXPECT_NE(client.ReadResponse().find("\r\n\r\nawaited: "), std::string::npos);
  EXPECT_TRUE(LetsGo());
}

TEST_F(Forwarded, AnUpstreamThatEndsOrBabblesBeforeItsHeadIsAnError) {
  for (const std::string answer :
       {"", "HTTP/1.1 200", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
        "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n", "HTTP/1.1 101 Now\r\nUpgrade: x\r\n\r\n",
        "\x15\x03\x01"}) {
    Peer client = server_.Connect();
    client.Send(Get("/"));
    Peer upstream = upstream_.Accept();
    upstream.ReadUntil("\r\n\r\n");
    upstream.Send(answer);
    upstream.Close();
    EXPECT_EQ(client.ReadResponse().substr(0, 12), "HTTP/1.1 502") << answer;
  }
}

// Many interim answers in one read use no stack, and their number is limited.
TEST_F(Forwarded, InterimAnswersHaveAnEnd) {
  const auto interim = [](int number) {
    std::string heads;
    for (int i = 0; i < number; ++i) heads += "HTTP/1.1 100 \r\n\r\n";
    return heads;
  };
  for (const auto& [number, status] : {std::pair(256, "200"), std::pair(4000, "502")}) {
    Peer client = server_.Connect();
    client.Send(Get("/"));
    Peer upstream = upstream_.Accept();
    upstream.ReadUntil("\r\n\r\n");
    upstream.Send(interim(number) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    upstream.Close();
    EXPECT_EQ(client.ReadResponse().substr(9, 3), status) << number;
  }
  Peer client = server_.Connect();
  client.Send(Get("/"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  for (int i = 0; i < 257; ++i) upstream.Send("HTTP/1.1 103 Early Hints\r\n\r\n");
  EXPECT_NE(client.ReadUntil("HTTP/1.1 502").find("103 Early Hints"), std::string::npos);
}

TEST_F(Forwarded, ABodyThatIsCutOffNeverLooksComplete) {
  for (const std::string answer :
       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n|nonsense"}) {
    Peer client = server_.Connect();
    client.Send(Get("/"));
    Peer upstream = upstream_.Accept();
    upstream.ReadUntil("\r\n\r\n");
    const size_t pause = answer.find('|');
    upstream.Send(answer.substr(0, pause));
    client.ReadUntil("abc");
    if (pause != std::string::npos) upstream.Send(answer.substr(pause + 1));
    upstream.Close();
    const std::string response = client.ReadToEnd();
    EXPECT_EQ(response.find("0\r\n\r\n"), std::string::npos) << response;
  }
}

TEST_F(Forwarded, AClientThatLeavesEndsTheUpstreamConnection) {
  Peer client = server_.Connect();
  client.Send(Get("/events"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
  client.ReadUntil("x\r\n");
  client.Close();
  EXPECT_EQ(upstream.ReadToEnd(), "");
}

TEST_F(Forwarded, AClientThatLeavesIsNoticedWhileTheUpstreamIsStuck) {
  Peer client = server_.Connect();
  client.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  // Sends until the upstream's socket is full. The last piece then stays unread in the server's
  // socket, which has room for it and for the end of the stream. A full window would keep the end
  // out.
  const std::string piece(16'384, 'x');
  size_t sent = 0;
  do {
    client.Send(piece);
    sent += piece.size();
  } while (ComesToHold(upstream.fd(), sent));
  client.Send(piece);
  client.Close();
  // The server must notice the end without reading the buffered bytes.
  pollfd end{upstream.fd(), POLLRDHUP, 0};
  EXPECT_EQ(poll(&end, 1, 10'000), 1);
}

TEST_F(Forwarded, AClientThatLeavesIsNoticedBehindWhatItSentAhead) {
  Peer client = server_.Connect();
  client.Send(Get("/events") + std::string(100'000, 'x'));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  client.Close();
  EXPECT_EQ(upstream.ReadToEnd(), "");
}

TEST_F(Forwarded, AnEarlyAnswerEndsTheRequest) {
  Peer client = server_.Connect();
  client.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nstart");
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("start");
  upstream.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
  const std::string answer = client.ReadResponse();
  EXPECT_EQ(BodyOf(answer), "no");
  // Without this header, the client would send its next request into a closing connection.
  EXPECT_EQ(FieldsOf(answer, "connection"), std::vector<std::string>{"close"});
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_EQ(upstream.ReadToEnd(), "");
}

TEST_F(Forwarded, AMalformedRequestBodyEndsTheUpstreamConnection) {
  Peer client = server_.Connect();
  client.Send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("abc\r\n");
  client.Send("nonsense\r\n");
  EXPECT_EQ(client.ReadToEnd().substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(upstream.ReadToEnd(), "");
}

TEST_F(Forwarded, WhatARevokedKeyHasOpenedEndsAndNothingElse) {
  constexpr char kHead[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
  Peer red = server_.Connect(), blue = server_.Connect(), waiting = server_.Connect();
  red.Send(Get("/red", "X-Key: red\r\n"));
  Peer of_red = upstream_.Accept();
  of_red.Send(kHead);
  red.ReadUntil("a\r\n");
  waiting.Send(Get("/waiting", "X-Key: red\r\n"));
  Peer of_waiting = upstream_.Accept();
  of_waiting.ReadUntil("\r\n\r\n");
  // The connection has carried a request of the revoked key, but this one is of another.
  blue.Send(Get("/first", "X-Key: red\r\n"));
  Peer of_first = upstream_.Accept();
  of_first.Send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx");
  EXPECT_EQ(BodyOf(blue.ReadResponse()), "x");
  blue.Send(Get("/blue"));
  Peer of_blue = upstream_.Accept();
  of_blue.Send(kHead);
  blue.ReadUntil("a\r\n");
  EXPECT_EQ(OpenStreams(), 3U);

  Revoke("red");
  EXPECT_EQ(OpenStreams(), 1U);
  bool reset = false;
  EXPECT_EQ(red.ReadToEnd(&reset), "");
  EXPECT_TRUE(reset);
  EXPECT_EQ(waiting.ReadToEnd(), "");
  of_red.ReadUntil("\r\n\r\n");
  EXPECT_EQ(of_red.ReadToEnd(), "");
  EXPECT_EQ(of_waiting.ReadToEnd(), "");
  of_blue.Send("1\r\nb\r\n0\r\n\r\n");
  blue.ReadUntil("0\r\n\r\n");
}

class Upgraded : public Forwarded {
 protected:
  // Opens a tunnel between a client and an upstream.
  std::pair<Peer, Peer> Tunnel(const std::string& first = "first") {
    Peer client = server_.Connect();
    client.Send(Get("/ws",
                    "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                    "Sec-WebSocket-Key: k\r\nX-Key: red\r\n"));
    Peer upstream = upstream_.Accept();
    const std::string head = upstream.ReadUntil("\r\n\r\n");
    EXPECT_EQ(FieldsOf(head, "upgrade"), std::vector<std::string>{"websocket"});
    EXPECT_EQ(FieldsOf(head, "connection"), std::vector<std::string>{"Upgrade"});
    EXPECT_EQ(FieldsOf(head, "sec-websocket-key"), std::vector<std::string>{"k"});
    upstream.Send(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\n" +
        first);
    EXPECT_EQ(client.ReadUntil("\r\n\r\n"),
              "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\n"
              "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    EXPECT_EQ(client.ReadExactly(first.size()), first);
    return {std::move(client), std::move(upstream)};
  }
};

TEST_F(Upgraded, CarriesBytesBothWays) {
  auto [client, upstream] = Tunnel();
  const std::string bytes(1'000'000, '\xff');
  std::thread echo([&upstream = upstream, &bytes] {
    EXPECT_TRUE(upstream.ReadExactly(bytes.size()) == bytes);
    upstream.Send(bytes);
  });
  client.Send(bytes);
  EXPECT_TRUE(client.ReadExactly(bytes.size()) == bytes);
  echo.join();
}

TEST_F(Upgraded, PassesAHalfCloseOn) {
  auto [client, upstream] = Tunnel();
  client.Send("last words");
  client.ShutdownWrite();
  EXPECT_EQ(upstream.ReadToEnd(), "last words");
  upstream.Send("answer");
  upstream.Close();
  EXPECT_EQ(client.ReadToEnd(), "answer");
}

TEST_F(Upgraded, HoldsWhatItIsGivenToTheEnd) {
  auto [client, upstream] = Tunnel();
  EXPECT_EQ(held_, 1);
  client.Send("x");
  EXPECT_EQ(upstream.ReadExactly(1), "x");
  EXPECT_EQ(held_, 1);
  client.Close();
  upstream.Close();
  EXPECT_TRUE(LetsGo());
}

TEST_F(Upgraded, EndsWithTheUpstream) {
  auto [client, upstream] = Tunnel();
  upstream.Close();
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(Upgraded, ARevokedWebSocketIsToldWhy) {
  auto [client, upstream] = Tunnel("\x81\x02hi");
  client.Send("ignored");
  EXPECT_EQ(upstream.ReadExactly(7), "ignored");
  Revoke("red");
  bool reset = false;
  const std::string close = client.ReadToEnd(&reset);
  EXPECT_FALSE(reset);
  EXPECT_EQ(close.substr(0, 1), "\x88");
  EXPECT_EQ(close.substr(2),
            std::string("\x03\xF0") + "the authorisation of this connection has ended");
  EXPECT_EQ(upstream.ReadToEnd(), "");
  // The client does not answer, and is not waited for.
  EXPECT_TRUE(LetsGo());
}

TEST_F(Upgraded, ARevokedWebSocketWithinAFrameIsReset) {
  auto [client, upstream] = Tunnel("\x81\x03hi");
  Revoke("red");
  bool reset = false;
  EXPECT_EQ(client.ReadToEnd(&reset), "");
  EXPECT_TRUE(reset);
  EXPECT_EQ(upstream.ReadToEnd(), "");
  EXPECT_TRUE(LetsGo());
}

// Ends the tunnel at `word`.
struct Censor final : TunnelTap {
  explicit Censor(std::string its_word) : word(std::move(its_word)) {}
  bool FromClient(std::string_view bytes) override {
    client.append(bytes);
    return client.find(word) == std::string::npos;
  }
  bool FromUpstream(std::string_view bytes) override {
    upstream.append(bytes);
    return upstream.find(word) == std::string::npos;
  }
  const std::string word;
  std::string client, upstream;  // the bytes that it has seen
};

TEST_F(Upgraded, ATapSeesEachByteOnce) {
  const auto tap = std::make_shared<Censor>("never");
  tap_ = tap;
  auto [client, upstream] = Tunnel();
  const std::string bytes(1'000'000, '\xff');
  std::thread echo([&upstream = upstream, &bytes] {
    EXPECT_TRUE(upstream.ReadExactly(bytes.size()) == bytes);
    upstream.Send(bytes);
  });
  client.Send(bytes);
  EXPECT_TRUE(client.ReadExactly(bytes.size()) == bytes);
  echo.join();
  server_.OnLoop([&] {
    EXPECT_TRUE(tap->client == bytes);
    EXPECT_TRUE(tap->upstream == "first" + bytes);
  });
}

TEST_F(Upgraded, ATapEndsAWebSocketBeforeTheBytesPass) {
  for (const bool of_client : {true, false}) {
    tap_ = std::make_shared<Censor>("secret");
    auto [client, upstream] = Tunnel("\x81\x02hi");
    (of_client ? client : upstream).Send("\x81\x06secret");
    bool reset = false;
    const std::string close = client.ReadToEnd(&reset);
    EXPECT_FALSE(reset);
    EXPECT_EQ(close.substr(0, 1), "\x88");
    EXPECT_EQ(close.substr(2),
              std::string("\x03\xF3") + "the daemon cannot record this connection");
    EXPECT_EQ(upstream.ReadToEnd(), "");
    EXPECT_TRUE(LetsGo());
  }
}

TEST_F(Upgraded, ATapMayEndItAtOnce) {
  tap_ = std::make_shared<Censor>("first");
  Peer client = server_.Connect();
  client.Send(Get("/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst");
  client.ReadUntil("\r\n\r\n");
  EXPECT_EQ(client.ReadToEnd().substr(0, 1), "\x88");
  EXPECT_TRUE(LetsGo());
}

TEST_F(Upgraded, EndsWhenTheServerStops) {
  auto [client, upstream] = Tunnel();
  const auto stopped = std::make_shared<std::promise<void>>();
  server_.OnLoop([&] { server_.server().Stop(1, [stopped] { stopped->set_value(); }); });
  EXPECT_EQ(stopped->get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(client.ReadToEnd(), "");
  EXPECT_EQ(upstream.ReadToEnd(), "");
}

TEST_F(Upgraded, ARefusalIsAnOrdinaryAnswer) {
  Peer client = server_.Connect();
  client.Send(Get("/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
  Peer upstream = upstream_.Accept();
  upstream.ReadUntil("\r\n\r\n");
  upstream.Send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_EQ(BodyOf(client.ReadResponse()), "no");
}

}  // namespace
}  // namespace atl::http
