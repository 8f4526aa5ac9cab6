#include "netpolicy/splice/http_head.h"

#include <gtest/gtest.h>

namespace atl::netpolicy {
namespace {

std::string Head(const std::string& line, const std::string& fields) {
  return line + "\r\n" + fields + "\r\n";
}

// Returns the reason for the refusal, "" if the head is accepted.
std::string Refusal(const std::string& text) {
  HttpHead head;
  const char* reason = ReadHttpHead(text, head);
  return reason ? reason : "";
}

std::string RefusalOfFields(const std::string& fields) {
  return Refusal(Head("POST / HTTP/1.1", "Host: a.example\r\n" + fields));
}

HttpHead Taken(const std::string& text) {
  HttpHead head;
  const char* reason = ReadHttpHead(text, head);
  EXPECT_EQ(reason, nullptr) << text << ": " << reason;
  return head;
}

TEST(HttpHead, GivesTheHost) {
  EXPECT_EQ(Taken(Head("GET / HTTP/1.1", "Host: A.Example\r\n")).name, "a.example");
  const HttpHead port = Taken(Head("GET /x?y HTTP/1.1", "hOST:\t a.example.:8080 \r\n"));
  EXPECT_EQ(port.name, "a.example");
  EXPECT_EQ(port.port, 8080);
  const HttpHead address = Taken(Head("GET / HTTP/1.1", "Host: 192.0.2.1:80\r\n"));
  EXPECT_EQ(address.name, "");
  EXPECT_EQ(address.address, (std::string{'\xc0', 0, 2, 1}));
  EXPECT_EQ(Taken(Head("GET / HTTP/1.1", "Host: [::1]:80\r\n")).address.size(), 16U);
  EXPECT_EQ(Taken(Head("GET / HTTP/1.1", "Host:\r\n")).name, "");
  EXPECT_EQ(Taken(Head("GET / HTTP/1.0", "")).name, "");
  EXPECT_EQ(Taken(Head("OPTIONS * HTTP/1.1", "Host: a.example\r\n")).name, "a.example");
}

TEST(HttpHead, RefusesHostsThatAreNone) {
  EXPECT_NE(Refusal(Head("GET / HTTP/1.1", "")), "");
  EXPECT_NE(RefusalOfFields("Host: a.example\r\n"), "") << "twice";
  for (const char* host : {"a b", "a.example,b.example", "user@a.example", "a..b", "127.1", "::1",
                           "a.example:", "a.example:0", "a.example:99999", "a.example:80:80",
                           "a.example:+80", "[::1", "http://a.example", "a.example/", "[a]"}) {
    EXPECT_NE(Refusal(Head("GET / HTTP/1.1", std::string("Host: ") + host + "\r\n")), "") << host;
  }
}

TEST(HttpHead, AbsoluteTargetsAgreeWithHost) {
  const std::string host = "Host: a.example\r\n";
  EXPECT_EQ(Taken(Head("GET http://a.example/x HTTP/1.1", host)).name, "a.example");
  EXPECT_EQ(Taken(Head("GET HTTP://A.example:80?x HTTP/1.1", host)).name, "a.example");
  EXPECT_EQ(Taken(Head("GET http://a.example/ HTTP/1.0", "")).name, "a.example");
  for (const char* target :
       {"http://b.example/", "http://a.example:81/", "http://a.example@b.example/",
        "http://b.example\\@a.example/", "https://a.example/", "a.example", "http:///", "http://",
        "//b.example/", "http:/a.example/"}) {
    const std::string refusal = Refusal(Head(std::string("GET ") + target + " HTTP/1.1", host));
    // "//b.example/" is a path by the grammar of requests.
    EXPECT_EQ(refusal.empty(), std::string(target).starts_with("//")) << target;
  }
  EXPECT_NE(Refusal(Head("GET http://a.example/ HTTP/1.1", "")), "") << "no Host";
  EXPECT_NE(Refusal(Head("GET http://a.example/ HTTP/1.1", "Host:\r\n")), "") << "empty Host";
}

TEST(HttpHead, RefusesOtherProtocols) {
  const std::string host = "Host: a.example\r\n";
  for (const char* line : {"CONNECT a.example:443 HTTP/1.1",
                           "PRI * HTTP/2.0",
                           "GET / HTTP/2.0",
                           "GET / HTTP/0.9",
                           "GET / HTTP/1.2",
                           "GET / http/1.1",
                           "GET /",
                           "GET",
                           "",
                           "GET  / HTTP/1.1",
                           "GET / HTTP/1.1 ",
                           " GET / HTTP/1.1",
                           "GET /a b HTTP/1.1",
                           "G\x01T / HTTP/1.1",
                           "GET /\x01 HTTP/1.1",
                           "GET * HTTP/1.1",
                           "GET /\t HTTP/1.1",
                           "GET /\r HTTP/1.1",
                           "GET /#x HTTP/1.1",
                           "GET /\xc3\xa4 HTTP/1.1",
                           "CONNECT / HTTP/1.1"}) {
    EXPECT_NE(Refusal(Head(line, host)), "") << line;
  }
}

TEST(HttpHead, RefusesFieldsThatTwoReadDifferently) {
  EXPECT_EQ(RefusalOfFields("X: y\r\nEmpty:\r\nT:\ta\tb\r\nU: \xc3\xa4\r\n"), "");
  for (const char* fields : {"X: y\r\n folded\r\n", "X: y\r\n\tfolded\r\n", "X : y\r\n", "X\r\n",
                             ": y\r\n", "X: a\rb\r\n", "X: a\nb\r\n", "X: a\x01\r\n",
                             "X\xc3: y\r\n", "X y: z\r\n", "X: \x7f\r\n"}) {
    EXPECT_NE(RefusalOfFields(fields), "") << fields;
  }
  EXPECT_NE(RefusalOfFields(std::string("X: a\0b\r\n", 8)), "");
}

TEST(HttpHead, KnowsHowTheBodyEnds) {
  const std::string host = "Host: a.example\r\n";
  EXPECT_EQ(Taken(Head("GET / HTTP/1.1", host)).body.kind, http::Framing::Kind::kNone);
  EXPECT_EQ(Taken(Head("GET / HTTP/1.1", host + "Content-Length: 0\r\n")).body.kind,
            http::Framing::Kind::kNone);
  const HttpHead sized = Taken(Head("POST / HTTP/1.1", host + "content-length: 18\r\n"));
  EXPECT_EQ(sized.body.kind, http::Framing::Kind::kLength);
  EXPECT_EQ(sized.body.length, 18U);
  EXPECT_EQ(Taken(Head("POST / HTTP/1.1", host + "Transfer-Encoding: Chunked\r\n")).body.kind,
            http::Framing::Kind::kChunked);
}

TEST(HttpHead, RefusesBodiesWithTwoEnds) {
  for (const char* fields :
       {"Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n", "Content-Length: 0x5\r\n", "Content-Length: -1\r\n",
        "Content-Length:\r\n", "Content-Length: 5 5\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding:\r\n",
        "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: chunked;x\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_NE(RefusalOfFields(fields), "") << fields;
  }
  EXPECT_NE(Refusal(Head("POST / HTTP/1.0", "Host: a.example\r\nTransfer-Encoding: chunked\r\n")),
            "");
}

TEST(HttpHead, KnowsUpgrades) {
  EXPECT_TRUE(Taken(Head("GET / HTTP/1.1", "Host: a.example\r\nUpgrade: websocket\r\n")).upgrade);
  for (const char* fields : {"Upgrade: websocket\r\nContent-Length: 5\r\n",
                             "Upgrade: websocket\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_NE(RefusalOfFields(fields), "") << fields;
  }
}

TEST(HttpHead, StripsOffersOfOtherRequests) {
  const std::string host = "Host: a.example\r\n";
  for (const char* fields :
       {"Upgrade: h2c\r\n", "UPGRADE: websocket, h2c\r\n", "Upgrade: H2C\r\n",
        "Upgrade: HTTP/2.0\r\n", "Upgrade: TLS/1.0\r\n", "HTTP2-Settings: AAMAAABk\r\n",
        "Upgrade: websocket\r\nupgrade: h2\r\n", "Upgrade: h2c\r\nContent-Length: 5\r\n"}) {
    const std::string text = Head("GET / HTTP/1.1", host + "Connection: Upgrade\r\n" + fields);
    const HttpHead head = Taken(text);
    EXPECT_TRUE(head.strip_upgrade) << fields;
    EXPECT_FALSE(head.upgrade) << fields;
    const std::string length =
        text.find("Length") == std::string::npos ? "" : "Content-Length: 5\r\n";
    EXPECT_EQ(WithoutUpgrade(text),
              Head("GET / HTTP/1.1", host + "Connection: Upgrade\r\n" + length));
  }
}

}  // namespace
}  // namespace atl::netpolicy
