#include <gtest/gtest.h>

#include "runtime/http/parser.h"

namespace atl::http {
namespace {

struct Body : Parser::BodySink {
  void OnBody(std::string_view piece) override { bytes.append(piece); }
  std::string bytes;
};

// Offers `step` more bytes at a time.
Status FeedAll(Parser* parser, std::string bytes, size_t step, Body* body) {
  size_t used = 0, offered = 0;
  while (!parser->done()) {
    ATOLL_ASSIGN(const size_t n, parser->Feed(bytes.data() + used, offered - used, body));
    used += n;
    if (n > 0) continue;
    if (offered == bytes.size()) break;
    offered = std::min(offered + step, bytes.size());
  }
  return {};
}

TEST(Parser, StopsBehindTheHeadAndTheMessage) {
  Parser parser(Parser::Kind::kRequest, 4096);
  Body body;
  std::string bytes = "POST /x?y HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nA: b \r\n\r\nabcGET";
  const auto head = parser.Feed(bytes.data(), bytes.size(), &body);
  ASSERT_TRUE(head);
  EXPECT_TRUE(parser.head_done());
  EXPECT_EQ(body.bytes, "");
  EXPECT_EQ(parser.head().method, "POST");
  EXPECT_EQ(parser.head().target, "/x?y");
  ASSERT_NE(parser.head().Find("a"), nullptr);
  EXPECT_EQ(*parser.head().Find("a"), "b");
  const auto rest = parser.Feed(bytes.data() + *head, bytes.size() - *head, &body);
  ASSERT_TRUE(rest);
  EXPECT_TRUE(parser.done());
  EXPECT_EQ(body.bytes, "abc");
  EXPECT_EQ(bytes.substr(*head + *rest), "GET");
}

TEST(Parser, ChunksAtEveryCut) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: "
      "u\r\n\r\n";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    Parser parser(Parser::Kind::kRequest, 4096);
    Body body;
    ASSERT_TRUE(FeedAll(&parser, bytes, step, &body));
    EXPECT_TRUE(parser.done());
    EXPECT_EQ(body.bytes, "abcde");
    EXPECT_EQ(parser.head().headers.list.size(), 2U);
  }
}

TEST(Parser, RefusesWhatTwoPartiesCouldReadDifferently) {
  for (const std::string bytes :
       {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\nHost: h\n\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: h\r\n\r\n",
        "CONNECT / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http://h/ HTTP/1.1\r\n\r\n",
        "GET https://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET http:/// HTTP/1.1\r\nHost:\r\n\r\n",
        "GET http://h:81/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"}) {
    Parser parser(Parser::Kind::kRequest, 4096);
    Body body;
    EXPECT_FALSE(FeedAll(&parser, bytes, bytes.size(), &body)) << bytes;
  }
}

TEST(Parser, AbsoluteTargetsAgreeWithHost) {
  for (const auto& [line, host, read] :
       {std::tuple{"GET http://h/x?y HTTP/1.1", "Host: h\r\n", "h /x?y"},
        {"GET HTTP://H:80 HTTP/1.1", "Host: h\r\n", "h /"},
        {"GET http://h?y HTTP/1.1", "Host: h:80\r\n", "h:80 /?y"},
        {"GET http://h/x HTTP/1.0", "", "h /x"}}) {
    Parser parser(Parser::Kind::kRequest, 4096);
    Body body;
    ASSERT_TRUE(FeedAll(&parser, std::string(line) + "\r\n" + host + "\r\n", 4096, &body)) << line;
    EXPECT_EQ(*parser.head().Find("host") + " " + parser.head().target, read);
  }
}

TEST(Lists, ReadsEachFieldOfThatName) {
  Headers headers;
  headers.Add("Connection", "keep-alive ,\tX-Hop");
  headers.Add("connection", ",, upgrade");
  headers.Add("other", "none");
  for (const char* one : {"KEEP-ALIVE", "x-hop", "upgrade"}) {
    EXPECT_TRUE(Lists(headers, "connection", one)) << one;
    EXPECT_TRUE(IsHopByHop(headers, one)) << one;
  }
  for (const char* none : {"", "x", "hop", "none", "keep-alive ,\tX-Hop"}) {
    EXPECT_FALSE(Lists(headers, "connection", none)) << none;
  }
}

TEST(Parser, BoundsTheHeadInOnePieceOrMany) {
  std::string bytes = "GET / HTTP/1.1\r\nHost: h\r\n";
  while (bytes.size() < 5000) bytes += "A: b\r\n";
  bytes += "\r\n";
  for (const size_t step : {size_t{1}, size_t{100}, bytes.size()}) {
    Parser parser(Parser::Kind::kRequest, 4096);
    Body body;
    const Status fed = FeedAll(&parser, bytes, step, &body);
    ASSERT_FALSE(fed);
    EXPECT_EQ(fed.error().code(), Code::kResourceExhausted);
  }
}

TEST(Parser, BoundsTrailersAndChunkLines) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& tail :
       {"0\r\nA: " + std::string(9000, 'x'), "1;" + std::string(9000, 'x')}) {
    Parser parser(Parser::Kind::kRequest, 4096);
    Body body;
    EXPECT_FALSE(FeedAll(&parser, head + tail, 1000, &body));
  }
}

TEST(Parser, ResponseUntilTheEnd) {
  Parser parser(Parser::Kind::kResponse, 4096);
  Body body;
  ASSERT_TRUE(FeedAll(&parser, "HTTP/1.1 200 OK\r\n\r\nsome", 100, &body));
  EXPECT_FALSE(parser.done());
  EXPECT_TRUE(parser.until_eof());
  EXPECT_TRUE(parser.FeedEof());
  EXPECT_EQ(body.bytes, "some");
}

TEST(Parser, ResponseThatIsCutOff) {
  Parser parser(Parser::Kind::kResponse, 4096);
  Body body;
  ASSERT_TRUE(FeedAll(&parser, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", 100, &body));
  EXPECT_FALSE(parser.FeedEof());
}

TEST(Parser, AnswerToHead) {
  Parser parser(Parser::Kind::kResponse, 4096);
  parser.SkipBody();
  Body body;
  ASSERT_TRUE(FeedAll(&parser, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 100, &body));
  EXPECT_TRUE(parser.done());
}

}  // namespace
}  // namespace atl::http
