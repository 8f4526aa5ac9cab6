#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>

#include "runtime/http/body_budget.h"
#include "tests/unit/http/socket_peer.h"

namespace atl::http {
namespace {

// Answers with method, target and body.
void Echo(const std::shared_ptr<Exchange>& exchange) {
  exchange->ReadBody(1 << 20, [exchange](Result<std::string> body) {
    Response response;
    if (!body) {
      response.status = body.error().code() == Code::kResourceExhausted ? 413 : 400;
      response.body = body.error().message();
    } else {
      response.body = exchange->request().method + " " + exchange->request().target + " " + *body;
    }
    exchange->Respond(std::move(response));
  });
}

std::string Get(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n";
}

TEST(Server, AnswersOneRequestAfterAnotherOnAConnection) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  for (int i = 0; i < 3; ++i) {
    peer.Send(Get("/a%2Fb?x=1&y=%20"));
    const std::string response = peer.ReadResponse();
    EXPECT_EQ(response.substr(0, 17), "HTTP/1.1 200 OK\r\n");
    EXPECT_EQ(BodyOf(response), "GET /a%2Fb?x=1&y=%20 ");
    EXPECT_TRUE(FieldsOf(response, "connection").empty());
    EXPECT_EQ(FieldsOf(response, "date").size(), 1U);
  }
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests +=
        "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
  }
  peer.Send(requests);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(BodyOf(peer.ReadResponse()), "POST /" + std::to_string(i) + " hi");
  }
}

TEST(Server, ReadsAHeadThatArrivesByteByByte) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  for (char c : Get("/slow")) peer.Send(std::string_view(&c, 1));
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "GET /slow ");
}

TEST(Server, ReadsAChunkedBody) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  peer.Send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  peer.Send("2;x=y\r\nde\r\n0\r\nTrailer: dropped\r\n\r\n" + Get("/next"));
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "POST / abcde");
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "GET /next ");
}

TEST(Server, ClosesWhenTheClientAsksForIt) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  peer.Send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string response = peer.ReadToEnd();
  EXPECT_EQ(FieldsOf(response, "connection"), std::vector<std::string>{"close"});
}

TEST(Server, KeepsAnHttp10ConnectionOnlyOnRequest) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  peer.Send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(FieldsOf(peer.ReadResponse(), "connection"), std::vector<std::string>{"keep-alive"});
  peer.Send("GET /2 HTTP/1.0\r\n\r\n");
  EXPECT_EQ(BodyOf(peer.ReadToEnd()), "GET /2 ");
}

TEST(Server, AnswersHeadWithTheLengthButNoBody) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({200, {}, "twelve bytes"});
  });
  Peer peer = server.Connect();
  peer.Send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(FieldsOf(peer.ReadUntil("\r\n\r\n"), "content-length"), std::vector<std::string>{"12"});
  peer.Send(Get("/"));
  EXPECT_EQ(peer.ReadUntil("\r\n"), "HTTP/1.1 200 OK\r\n");
}

TEST(Server, SaysZeroForAnEmptyBodyButNothingFor204) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({exchange->request().target == "/204" ? 204 : 202, {}, ""});
  });
  Peer peer = server.Connect();
  peer.Send(Get("/202") + Get("/204"));
  EXPECT_EQ(FieldsOf(peer.ReadUntil("\r\n\r\n"), "content-length"), std::vector<std::string>{"0"});
  EXPECT_TRUE(FieldsOf(peer.ReadUntil("\r\n\r\n"), "content-length").empty());
}

TEST(Server, TellsAWaitingClientToContinue) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(peer.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.Send("ok");
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "PUT / ok");
}

TEST(Server, ClosesIfAWaitingClientWasNeverToldToContinue) {
  // The client may send the body or not, so the next bytes could be either a body or a request.
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({200, {}, exchange->request().target});
  });
  Peer peer = server.Connect();
  peer.Send("PUT /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\nExpect: 100-continue\r\n\r\n" +
            Get("/2"));
  const std::string response = peer.ReadToEnd();
  EXPECT_EQ(BodyOf(response), "/1");
  EXPECT_EQ(FieldsOf(response, "connection"), std::vector<std::string>{"close"});
}

TEST(Server, RefusesATooLargeBodyWithoutAskingForIt) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n");
  const std::string response = peer.ReadToEnd();
  EXPECT_EQ(response.substr(0, 12), "HTTP/1.1 413");
  EXPECT_EQ(FieldsOf(response, "connection"), std::vector<std::string>{"close"});
}

TEST(Server, AClientThatSendsAllOfATooLargeBodyReadsTheRefusal) {
  // Most clients look for an answer only after they have sent everything.
  RunningServer server(Echo);
  const std::string mebibyte(1 << 20, 'x');
  for (const char* framing :
       {"Content-Length: 41943040\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2800000\r\n"}) {
    Peer peer = server.Connect();
    peer.Send("PUT / HTTP/1.1\r\nHost: h\r\n" + std::string(framing));
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(peer.TrySend(mebibyte)) << framing << i;
    peer.ShutdownWrite();
    bool reset = true;
    EXPECT_EQ(peer.ReadToEnd(&reset).substr(0, 12), "HTTP/1.1 413") << framing;
    EXPECT_FALSE(reset) << framing;
  }
}

TEST(Server, RefusesAChunkedBodyOnceItIsTooLarge) {
  RunningServer server(Echo);
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n");
  peer.Send(std::string(0x100001, 'x'));
  EXPECT_EQ(peer.ReadToEnd().substr(0, 12), "HTTP/1.1 413");
}

TEST(Server, ResponseSurvivesAClientThatKeepsSending) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({401, {}, "no"});
  });
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n");
  peer.Send(std::string(4000000, 'x'));
  EXPECT_EQ(BodyOf(peer.ReadToEnd()), "no");
}

TEST(Server, SkipsASmallUnreadBody) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({200, {}, exchange->request().target});
  });
  Peer peer = server.Connect();
  peer.Send("POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n");
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "/1");
  peer.Send(std::string(2000, 'G') + Get("/2"));
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "/2");
}

TEST(Server, SavesABodyToAFile) {
  const int fd = memfd_create("body", MFD_CLOEXEC);
  RunningServer server([fd](const std::shared_ptr<Exchange>& exchange) {
    exchange->SaveBody(fd, 1 << 30, [exchange](Result<uint64_t> size) {
      exchange->Respond({200, {}, size ? std::to_string(*size) : size.error().message()});
    });
  });
  std::string body(3'000'000, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 >> 3);
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n" + body);
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "3000000");
  std::string saved(body.size(), '\0');
  EXPECT_EQ(pread(fd, saved.data(), saved.size(), 0), static_cast<ssize_t>(saved.size()));
  EXPECT_TRUE(saved == body);
  close(fd);
}

TEST(Server, ReportsAFileThatCannotBeWritten) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    const auto fd = std::make_shared<UniqueFd>(open("/dev/full", O_WRONLY | O_CLOEXEC));
    exchange->SaveBody(fd->get(), 1 << 20, [exchange, fd](Result<uint64_t> size) {
      exchange->Respond({507, {}, size ? "saved" : size.error().message()});
    });
  });
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_NE(BodyOf(peer.ReadToEnd()).find("No space left"), std::string::npos);
}

TEST(Server, TellsTheHandlerOfAClientThatLeavesWithinTheBody) {
  std::promise<Code> seen;
  RunningServer server([&](const std::shared_ptr<Exchange>& exchange) {
    exchange->ReadBody(100, [&, exchange](Result<std::string> body) {
      seen.set_value(body ? Code::kInternal : body.error().code());
      exchange->Respond({400, {}, ""});
    });
  });
  Peer peer = server.Connect();
  peer.Send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
  peer.Close();
  EXPECT_EQ(seen.get_future().get(), Code::kUnavailable);
}

TEST(Server, LimitsTheHead) {
  ServerConfig config;
  config.max_header_bytes = 4096;
  RunningServer server(Echo, config);
  Peer peer = server.Connect();
  peer.TrySend("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(5000, 'x'));
  const std::string response = peer.ReadToEnd();
  EXPECT_EQ(response.substr(0, 12), "HTTP/1.1 431");
  EXPECT_EQ(BodyOf(response),
            R"({"code":"GENERAL::HEADER_TOO_LARGE","message":"the request head is too large"})");
}

TEST(Server, LimitsTheNumberOfFields) {
  RunningServer server(Echo);
  std::string head = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 256; ++i) head += "a:b\r\n";
  Peer peer = server.Connect();
  peer.Send(head + "\r\n");
  EXPECT_EQ(peer.ReadToEnd().substr(0, 12), "HTTP/1.1 431");
}

TEST(Server, GivesASlowHeadUp) {
  ServerConfig config;
  config.header_timeout_seconds = 0;  // the limit passes right after the first byte
  RunningServer server(Echo, config);
  Peer peer = server.Connect();
  peer.Send("GET / HT");
  EXPECT_EQ(peer.ReadToEnd().substr(0, 12), "HTTP/1.1 408");
}

TEST(Server, ClosesAnIdleConnection) {
  ServerConfig config;
  config.keep_alive_seconds = 0;
  RunningServer server(Echo, config);
  Peer peer = server.Connect();
  EXPECT_EQ(peer.ReadToEnd(), "");
}

TEST(Server, BoundsWhatClientsDoNotTake) {
  constexpr size_t kLarge = 16 << 20;
  ServerConfig config;
  config.max_untaken_bytes = kLarge + kLarge / 2;
  RunningServer server(
      [](const std::shared_ptr<Exchange>& exchange) {
        const bool large = exchange->request().target == "/large";
        exchange->Respond({200, {}, std::string(large ? kLarge : 5, 'x')});
      },
      config);
  Peer reads_nothing = server.Connect();
  reads_nothing.Send(Get("/large"));
  EXPECT_TRUE(reads_nothing.ReadUntil("\r\n\r\n").starts_with("HTTP/1.1 200"));
  Peer other = server.Connect();
  other.Send(Get("/large"));
  EXPECT_TRUE(other.ReadResponse().starts_with("HTTP/1.1 503"));
  other.Send(Get("/small"));
  EXPECT_EQ(BodyOf(other.ReadResponse()), "xxxxx");
  // Clients that have closed, or have read everything, hold no bytes.
  reads_nothing.Close();
  std::string answer;
  do {  // repeats until the server has noticed the close
    other.Send(Get("/large"));
    answer = other.ReadResponse();
  } while (answer.starts_with("HTTP/1.1 503"));
  EXPECT_EQ(BodyOf(answer).size(), kLarge);
  other.Send(Get("/large"));
  EXPECT_EQ(BodyOf(other.ReadResponse()).size(), kLarge);
}

TEST(Server, BoundsTheBodiesThatArrive) {
  constexpr size_t kLarge = BodyBudget::kMost / 3;
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->SetAuthority(std::string(exchange->request().headers.Get("X-Party")));
    exchange->ReadBody(kLarge, [exchange](const Result<std::string>& body) {
      if (body) return exchange->Respond({200, {}, std::to_string(body->size())});
      const bool now = body.error().error_number() == ENOMEM;
      exchange->Respond({now ? 503 : 413, {}, body.error().message()});
    });
  });
  const auto head = [](const std::string& party, size_t size) {
    return "POST / HTTP/1.1\r\nHost: h\r\nX-Party: " + party +
           "\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n";
  };
  const std::string body(kLarge, 'x');
  const auto ask = [&](const std::string& party, size_t size) {
    Peer peer = server.Connect();
    peer.Send(head(party, size) + body.substr(0, size));
    return peer.ReadResponse().substr(9, 3);
  };
  // A party has half of the room. Its stalled body leaves none for another large one.
  Peer stalled = server.Connect();
  stalled.Send(head("red", kLarge) + body.substr(1));
  std::string answer = "200";
  // Repeats until the server has read the stalled body.
  for (int i = 0; i < 20 && answer == "200"; ++i) answer = ask("red", kLarge);
  EXPECT_EQ(answer, "503");
  EXPECT_EQ(ask("red", BodyBudget::kSmall), "200") << "a small body passes";
  EXPECT_EQ(ask("blue", kLarge), "200") << "the other party has room";
  // The bytes come back with the connection.
  stalled.Close();
  do {  // repeats until the server has noticed the close
    answer = ask("red", kLarge);
  } while (answer == "503");
  EXPECT_EQ(answer, "200");
}

TEST(BodyBudget, SmallBodiesMayTakeAsMuchAgain) {
  constexpr size_t kSmall = BodyBudget::kSmall;
  BodyBudget budget(4 * kSmall);
  EXPECT_TRUE(budget.Take("", 0, 4 * kSmall)) << "the host may take all";
  EXPECT_FALSE(budget.Take("", 4 * kSmall, 1));
  EXPECT_TRUE(budget.Take("red", 0, kSmall));
  EXPECT_FALSE(budget.Take("red", kSmall, 1)) << "it is large now";
  EXPECT_TRUE(budget.Take("red", 0, kSmall));
  EXPECT_FALSE(budget.Take("red", 0, kSmall)) << "the other half of the reserve is not its own";
  EXPECT_TRUE(budget.Take("blue", 0, kSmall));
  budget.Return("red", 2 * kSmall);
  EXPECT_TRUE(budget.Take("red", 0, kSmall));
}

TEST(Server, RefusesConnectionsOverTheLimitWhileAllHaveARequestInWork) {
  ServerConfig config;
  config.max_connections = 1;
  std::shared_ptr<Exchange> held;
  RunningServer server([&](const std::shared_ptr<Exchange>& exchange) { held = exchange; }, config);
  Peer first = server.Connect();
  first.Send(Get("/1"));
  for (bool arrived = false; !arrived;) server.OnLoop([&] { arrived = held != nullptr; });
  Peer second = Peer::ConnectTcp(server.port(), false);
  (void)second.TrySend(Get("/2"));
  // A connection over the limit gets no handshake.
  EXPECT_EQ(second.ReadToEnd().substr(0, 12), kOverTls ? "" : "HTTP/1.1 503");
  server.OnLoop([&] { std::exchange(held, nullptr)->Respond({.body = "late"}); });
  EXPECT_EQ(BodyOf(first.ReadResponse()), "late");
}

TEST(Server, TheConnectionThatWaitsLongestGivesWay) {
  ServerConfig config;
  config.max_connections = 3;
  RunningServer server(Echo, config);
  const auto ask = [](Peer& peer) {
    peer.Send(Get("/"));
    return BodyOf(peer.ReadResponse());
  };
  Peer one = server.Connect(), two = server.Connect(), three = server.Connect();
  for (Peer* const peer : {&one, &two, &three, &one}) EXPECT_EQ(ask(*peer), "GET / ");
  Peer four = server.Connect();
  EXPECT_EQ(ask(four), "GET / ");
  EXPECT_EQ(two.ReadToEnd(), "");
  for (Peer* const peer : {&one, &three, &four}) EXPECT_EQ(ask(*peer), "GET / ");
}

TEST(Server, AHeadThatDoesNotEndGivesWay) {
  ServerConfig config;
  config.max_connections = 1;
  RunningServer server(Echo, config);
  Peer first = server.Connect();
  first.Send("GET / HTTP/1.1\r\nHost: ");
  // A turn of the loop that began after the bytes were there has read them.
  for (int turn = 0; turn < 2; ++turn) server.OnLoop([] {});
  Peer second = server.Connect();
  second.Send(Get("/2"));
  EXPECT_EQ(BodyOf(second.ReadResponse()), "GET /2 ");
  EXPECT_EQ(first.ReadToEnd(), "");
}

// Returns the descriptors that a program started now would inherit.
std::vector<int> Inheritable() {
  std::vector<int> found;
  for (int fd = 3; fd < 256; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags != -1 && (flags & FD_CLOEXEC) == 0) found.push_back(fd);
  }
  return found;
}

TEST(Server, EveryDescriptorIsCloseOnExec) {
  const std::vector<int> not_ours = Inheritable();
  UnixListener upstream;
  RunningServer server([&](const std::shared_ptr<Exchange>& exchange) {
    Upstream to;
    to.socket_path = upstream.path();
    to.target = "/";
    exchange->Forward(std::move(to));
  });
  Peer peer = server.Connect();
  peer.Send(Get("/"));
  Peer behind = upstream.Accept();
  behind.ReadUntil("\r\n\r\n");  // listener, connection and upstream are all open now
  EXPECT_EQ(Inheritable(), not_ours);
}

TEST(Server, AnswersForAHandlerThatForgets) {
  RunningServer server([](const std::shared_ptr<Exchange>&) {});
  Peer peer = server.Connect();
  peer.Send(Get("/"));
  EXPECT_EQ(peer.ReadResponse().substr(0, 12), "HTTP/1.1 500");
}

TEST(Server, AnswersForAHandlerThatThrows) {
  RunningServer server([](const std::shared_ptr<Exchange>&) { throw std::runtime_error("x"); });
  Peer peer = server.Connect();
  peer.Send(Get("/"));
  EXPECT_EQ(peer.ReadResponse().substr(0, 12), "HTTP/1.1 500");
}

TEST(Server, NeverSplitsAResponse) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    Response response;
    response.headers.Add("Location", "/x\r\nSet-Cookie: evil=1");
    exchange->Respond(std::move(response));
  });
  Peer peer = server.Connect();
  peer.Send(Get("/"));
  const std::string response = peer.ReadResponse();
  EXPECT_EQ(response.substr(0, 12), "HTTP/1.1 500");
  EXPECT_EQ(response.find("evil"), std::string::npos);
}

TEST(Server, RefusesWhatParsersDisagreeOn) {
  RunningServer server(Echo);
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {"400", start + "X: a\r\n b\r\n\r\n"},
      {"400", start + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"},
      {"400", start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"},
      {"400", start + "Content-Length: 1, 1\r\n\r\nx"},
      {"400", start + "Content-Length: +1\r\n\r\nx"},
      {"400", start + "Content-Length: 0x1\r\n\r\nx"},
      {"400", start + "Content-Length:\r\n\r\nx"},
      {"400", start + "Content-Length: 99999999999999999999\r\n\r\nx"},
      {"400", start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"400", start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"501", start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {"501", start + "Transfer-Encoding: identity\r\n\r\n"},
      {"501", start + "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n"},
      {"400", start + "Transfer-Encoding: \x0b"
                      "chunked\r\n\r\n0\r\n\r\n"},
      {"400", start + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
      {"400", start + "X Y: 1\r\n\r\n"},
      {"400", start + "X\r\n\r\n"},
      {"400", start + ": 1\r\n\r\n"},
      {"400", start + "X: a\rb\r\n\r\n"},
      {"400", start + "X: a\nContent-Length: 4\r\n\r\n"},
      {"400", start + std::string("X: a\0b\r\n\r\n", 10)},
      {"400", start + "Host: other\r\n\r\n"},
      {"400", "GET / HTTP/1.1\nHost: h\n\n"},
      {"400", "GET / HTTP/1.1\r\n\r\n"},
      {"400", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"},
      {"400", "GET / http/1.1\r\nHost: h\r\n\r\n"},
      {"400", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "GET /#x HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "GET path HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
      {"400", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"400", "GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"505", "GET / HTTP/1.2\r\nHost: h\r\n\r\n"},
      {"400", "\x16\x03\x01\x02"},
      {"400", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"505", "GET / HTTP/2.0\r\nHost: h\r\n\r\n"},
      {"417", start + "Expect: miracle\r\n\r\n"},
  };
  for (const auto& [status, request] : cases) {
    Peer peer = server.Connect();
    peer.Send(request + "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string response = peer.ReadToEnd();
    EXPECT_EQ(response.substr(0, 12), "HTTP/1.1 " + status) << request;
    EXPECT_EQ(response.find("smuggled"), std::string::npos) << request;
  }
}

TEST(Server, TellsAStrangerAtOnceThatItIsNoHttp) {
  // Neither peer would ever send the blank line that ends a head.
  RunningServer server(Echo);
  for (const std::string bytes : {"GET / HTTP/1.1\nHost: h\n\n", "\x16\x03\x01\x02", "\n"}) {
    Peer peer = server.Connect();
    peer.Send(bytes);
    EXPECT_EQ(peer.ReadResponse().substr(0, 12), "HTTP/1.1 400") << bytes;
  }
}

TEST(Server, RefusesMalformedChunks) {
  RunningServer server(Echo);
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string bodies[] = {"g\r\n",
                                "\r\n",
                                "-1\r\n",
                                "1\nx\n0\n\n",
                                "1 \r\nx\r\n0\r\n\r\n",
                                "1\r\nxy\r\n0\r\n\r\n",
                                "1\r\nx\n0\r\n\r\n",
                                "0x1\r\nx\r\n",
                                "1\r\nx\r\n0\r\n x: y\r\n\r\n",
                                "ffffffffffffffffffff\r\n",
                                "1;" + std::string(2000, 'e') + "\r\nx\r\n0\r\n\r\n",
                                "1\r\nxy\n0\r\n\r\n",
                                "1\r\nx\ry0\r\n\r\n",
                                "1\r\nx\r\n0\r\n\ry",
                                "0\r\nT: " + std::string(10000, 't') + "\r\n\r\n"};
  for (const std::string& body : bodies) {
    Peer peer = server.Connect();
    peer.Send(head + body + Get("/smuggled"));
    const std::string response = peer.ReadToEnd();
    EXPECT_EQ(response.substr(0, 12), "HTTP/1.1 400") << body;
    EXPECT_EQ(response.find("smuggled"), std::string::npos) << body;
  }
}

TEST(Server, AnAbsoluteTargetIsItsPath) {
  RunningServer server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond(
        {200,
         {},
         std::string(exchange->request().headers.Get("host")) + " " + exchange->request().target});
  });
  Peer peer = server.Connect();
  peer.Send("GET http://real:8080/x?y HTTP/1.1\r\nHost: real:8080\r\n\r\n");
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "real:8080 /x?y");
  peer.Send("GET http://real HTTP/1.1\r\nHost: real\r\n\r\n");
  EXPECT_EQ(BodyOf(peer.ReadResponse()), "real /");
}

TEST(Server, StopLetsWorkInProgressFinish) {
  std::promise<std::shared_ptr<Exchange>> arrived;
  RunningServer server(
      [&](std::shared_ptr<Exchange> exchange) { arrived.set_value(std::move(exchange)); });
  Peer idle = server.Connect();
  Peer busy = server.Connect();
  busy.Send(Get("/"));
  std::shared_ptr<Exchange> exchange = arrived.get_future().get();
  std::promise<void> stopped;
  server.OnLoop([&] { server.server().Stop(60'000, [&] { stopped.set_value(); }); });
  EXPECT_EQ(idle.ReadToEnd(), "");
  server.OnLoop([&] { std::exchange(exchange, nullptr)->Respond({200, {}, "done"}); });
  EXPECT_EQ(BodyOf(busy.ReadToEnd()), "done");
  busy.Close();
  stopped.get_future().wait();
}

TEST(Server, StopServesWhoHasJustConnected) {
  std::promise<std::shared_ptr<Exchange>> arrived;
  RunningServer server([&](std::shared_ptr<Exchange> exchange) {
    if (exchange->request().target == "/first") return exchange->Respond({200, {}, "served"});
    arrived.set_value(std::move(exchange));
  });
  Peer early = server.Connect();
  Peer busy = server.Connect();
  busy.Send(Get("/"));
  std::shared_ptr<Exchange> exchange = arrived.get_future().get();
  std::promise<void> stopped;
  server.OnLoop([&] { server.server().Stop(60'000, [&] { stopped.set_value(); }); });
  early.Send(Get("/first"));
  EXPECT_EQ(BodyOf(early.ReadToEnd()), "served");
  server.OnLoop([&] { std::exchange(exchange, nullptr)->Respond({200, {}, "done"}); });
  EXPECT_EQ(BodyOf(busy.ReadToEnd()), "done");
  stopped.get_future().wait();
}

TEST(Server, StopEndsWhatDoesNotFinish) {
  std::promise<std::shared_ptr<Exchange>> arrived;
  RunningServer server(
      [&](std::shared_ptr<Exchange> exchange) { arrived.set_value(std::move(exchange)); });
  Peer busy = server.Connect();
  busy.Send(Get("/"));
  std::shared_ptr<Exchange> exchange = arrived.get_future().get();
  std::promise<void> stopped;
  server.OnLoop([&] { server.server().Stop(1, [&] { stopped.set_value(); }); });
  stopped.get_future().wait();
  EXPECT_EQ(busy.ReadToEnd(), "");
  server.OnLoop([&] { std::exchange(exchange, nullptr)->Respond({200, {}, "late"}); });
}

TEST(Server, AStreamThatBeginsOnAClosedConnectionEnds) {
  std::promise<std::shared_ptr<Exchange>> arrived;
  RunningServer server(
      [&](std::shared_ptr<Exchange> exchange) { arrived.set_value(std::move(exchange)); });
  Peer client = server.Connect();
  client.Send(Get("/"));
  std::shared_ptr<Exchange> exchange = arrived.get_future().get();
  std::promise<void> stopped;
  server.OnLoop([&] { server.server().Stop(1, [&] { stopped.set_value(); }); });
  stopped.get_future().wait();
  std::shared_ptr<ResponseStream> stream;
  std::promise<void> told_at_once, told_late;
  server.OnLoop([&] {
    stream = exchange->Stream({200, {}, ""});
    stream->OnEvents([] {}, [&] { told_at_once.set_value(); });
    stream->Write("nobody takes this");
  });
  ASSERT_EQ(told_at_once.get_future().wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  server.OnLoop([&] {
    stream->Write("nor this");
    EXPECT_TRUE(stream->closed());
    EXPECT_EQ(stream->backlog(), 0U);
    stream->OnEvents([] {}, [&] { told_late.set_value(); });
  });
  EXPECT_EQ(told_late.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  server.OnLoop([&] { stream.reset(), exchange.reset(); });
}

// No byte reaches an upstream, because the client has closed.
TEST(Server, ForwardingFromAClosedConnectionAsksNobody) {
  std::promise<std::shared_ptr<Exchange>> arrived;
  RunningServer server(
      [&](std::shared_ptr<Exchange> exchange) { arrived.set_value(std::move(exchange)); });
  Peer client = server.Connect();
  client.Send(Get("/"));
  std::shared_ptr<Exchange> exchange = arrived.get_future().get();
  std::promise<void> stopped;
  server.OnLoop([&] { server.server().Stop(1, [&] { stopped.set_value(); }); });
  stopped.get_future().wait();
  const UnixListener upstream;
  std::promise<void> let_go;
  server.OnLoop([&] {
    Upstream to;
    to.socket_path = upstream.path();
    to.target = "/";
    to.held = std::shared_ptr<const void>(&let_go, [&](const void*) { let_go.set_value(); });
    std::exchange(exchange, nullptr)->Forward(std::move(to));
  });
  EXPECT_EQ(let_go.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_FALSE(upstream.HasWaiting());
}

TEST(Server, ReportsAPortInUse) {
  RunningServer server(Echo);
  auto loop = *PooledLoop::Create(1);
  ServerConfig config;
  config.port = server.port();
  const auto second = Server::Listen(*loop, config, Echo);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find("Address already in use"), std::string::npos);
  config.host = "localhost";
  EXPECT_EQ(Server::Listen(*loop, config, Echo).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::http
