#include "netpolicy/splice/client_hello.h"

#include <gtest/gtest.h>

#include "tests/unit/netpolicy/tls_bytes.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the byte builders

using HelloState = ClientHelloRead::State;

ClientHelloRead ReadHello(const std::string& bytes) {
  return ReadClientHello({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string Hello(const std::string& extensions) {
  return TlsRecord(TlsMessage(TlsBody(extensions)));
}

void ExpectRefused(const std::string& bytes, const std::string& what) {
  const ClientHelloRead read = ReadHello(bytes);
  EXPECT_EQ(read.state, HelloState::kRefused) << what;
  EXPECT_NE(read.reason, nullptr) << what;
}

TEST(ClientHello, GivesTheName) {
  const ClientHelloRead read = ReadHello(TlsHello("WWW.Example.com"));
  ASSERT_EQ(read.state, HelloState::kWhole);
  EXPECT_EQ(read.hello.name, "www.example.com");
  EXPECT_FALSE(read.hello.encrypted);
}

TEST(ClientHello, MayHaveNoName) {
  const std::string none = TlsExtension(43, TlsNumber(0x020304, 3));
  std::string bare = TlsBody("");
  bare.resize(bare.size() - 2);  // no extensions at all, as in TLS 1.0
  for (const std::string& bytes : {Hello(none), Hello(""), TlsRecord(TlsMessage(bare))}) {
    const ClientHelloRead read = ReadHello(bytes);
    ASSERT_EQ(read.state, HelloState::kWhole);
    EXPECT_EQ(read.hello.name, "");
  }
}

TEST(ClientHello, SeesHiddenHellosAndNames) {
  for (const size_t type : {0xfe0d, 0xffce}) {
    const ClientHelloRead read = ReadHello(TlsHello("a.example", TlsExtension(type, "x")));
    ASSERT_EQ(read.state, HelloState::kWhole);
    EXPECT_TRUE(read.hello.encrypted) << type;
    EXPECT_EQ(read.hello.name, "a.example");
  }
}

TEST(ClientHello, WaitsForEachByte) {
  const std::string whole = TlsHello("www.example.com");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ReadHello(whole.substr(0, size)).state, HelloState::kMore) << size;
  }
  EXPECT_EQ(ReadHello(whole + "whatever follows").state, HelloState::kWhole);
}

TEST(ClientHello, ComesInSeveralRecords) {
  const std::string message = TlsMessage(TlsBody(TlsServerName(TlsHostEntry("www.example.com"))));
  for (const size_t piece : {1U, 3U, 7U, 50U}) {
    std::string bytes;
    for (size_t at = 0; at < message.size(); at += piece) {
      EXPECT_EQ(ReadHello(bytes).state, HelloState::kMore);
      bytes += TlsRecord(message.substr(at, piece));
    }
    const ClientHelloRead read = ReadHello(bytes);
    ASSERT_EQ(read.state, HelloState::kWhole) << piece;
    EXPECT_EQ(read.hello.name, "www.example.com");
  }
}

TEST(ClientHello, RefusesWhatIsNoHandshake) {
  const std::string message = TlsMessage(TlsBody(""));
  ExpectRefused("GET / HTTP/1.1\r\n\r\n", "HTTP");
  ExpectRefused(std::string("\x80\x2e\x01\x00\x02", 5), "SSLv2");
  ExpectRefused(TlsRecord(message, 23), "application data");
  ExpectRefused(TlsRecord(message, 22, 0x0201), "record of another version");
  ExpectRefused(TlsRecord(""), "empty record");
  ExpectRefused("\x16\x03\x01" + TlsNumber(0x4001, 2), "record that is too long");
  ExpectRefused(TlsRecord(TlsNumber(2, 1) + TlsSized("x", 3)), "server hello");
  ExpectRefused(TlsRecord(message.substr(0, 20)) + TlsRecord(message.substr(20), 23),
                "another record within");
  ExpectRefused(TlsRecord(message.substr(0, 20)) + TlsRecord(""), "empty record within");
}

TEST(ClientHello, RefusesWhatIsTooLong) {
  ExpectRefused(TlsRecord(TlsNumber(1, 1) + TlsNumber(kMaxClientHello + 1, 3)), "announced");
  // Many records of one byte: the message is short, but its records are not.
  const std::string message = TlsMessage(TlsBody(TlsExtension(21, std::string(4000, '\0'))));
  std::string bytes;
  for (const char byte : message) bytes += TlsRecord(std::string(1, byte));
  ExpectRefused(bytes, "records");
}

TEST(ClientHello, RefusesMalformedBodies) {
  const std::string body = TlsBody(TlsServerName(TlsHostEntry("a.example")));
  for (size_t size = 0; size < body.size(); ++size) {
    // The message's own length is right, but its body is cut. A cut right before the extensions is
    // valid.
    if (size == body.size() - TlsServerName(TlsHostEntry("a.example")).size() - 2) continue;
    EXPECT_EQ(ReadHello(TlsRecord(TlsMessage(body.substr(0, size)))).state, HelloState::kRefused)
        << size;
  }
  ExpectRefused(TlsRecord(TlsMessage(body + "x")), "bytes after the extensions");
  ExpectRefused(TlsRecord(TlsMessage("\x02" + body.substr(1))), "version 2");
  const std::string head = TlsNumber(0x0303, 2) + std::string(32, 'r');
  ExpectRefused(TlsRecord(TlsMessage(head + TlsSized(std::string(33, 's'), 1) +
                                     TlsSized("\x13\x01", 2) + TlsSized(std::string(1, '\0'), 1))),
                "session id");
  ExpectRefused(TlsRecord(TlsMessage(head + TlsSized("", 1) + TlsSized("abc", 2) +
                                     TlsSized(std::string(1, '\0'), 1))),
                "odd cipher list");
  ExpectRefused(TlsRecord(TlsMessage(head + TlsSized("", 1) + TlsSized("ab", 2) + TlsSized("", 1))),
                "no compression");
}

TEST(ClientHello, RefusesNamesThatAreNot) {
  const std::string nul("good.example\0.evil.example", 26);
  for (const std::string& name :
       {std::string(), std::string("192.0.2.1"), std::string("127.1"), std::string("a..b"),
        std::string("a b"), nul, std::string("*.example"), std::string("[::1]"),
        std::string(300, 'a')}) {
    ExpectRefused(TlsHello(name), name);
  }
}

TEST(ClientHello, RefusesTwoNames) {
  const std::string a = TlsHostEntry("a.example"), b = TlsHostEntry("b.example");
  ExpectRefused(Hello(TlsServerName(a + b)), "two entries");
  ExpectRefused(Hello(TlsServerName(a) + TlsServerName(b)), "two extensions");
  ExpectRefused(Hello(TlsServerName(TlsNumber(1, 1) + TlsSized("a.example", 2))), "other type");
  ExpectRefused(Hello(TlsServerName("")), "empty list");
  ExpectRefused(Hello(TlsExtension(0, "")), "empty extension");
  ExpectRefused(Hello(TlsExtension(0, TlsSized(a, 2) + "x")), "more than the list");
  ExpectRefused(Hello(TlsServerName(a) + TlsExtension(16, "") + TlsExtension(16, "")),
                "another extension twice");
}

TEST(ClientHello, EndsWithItsRecord) {
  const std::string message = TlsMessage(TlsBody(TlsServerName(TlsHostEntry("a.example"))));
  const std::string other = TlsMessage(TlsBody(TlsServerName(TlsHostEntry("b.example"))));
  EXPECT_EQ(ReadHello(TlsRecord(message) + TlsRecord(other)).size, TlsRecord(message).size());
  const std::string both = TlsRecord(message + other);
  EXPECT_EQ(ReadHello(both).state, HelloState::kRefused);
  EXPECT_EQ(ReadHello(both.substr(0, 5 + message.size())).state, HelloState::kRefused)
      << "the record says that there is more";
}

TEST(ClientHello, TellsOfEarlyData) {
  EXPECT_FALSE(ReadHello(TlsHello("a.example")).hello.early_data);
  EXPECT_TRUE(ReadHello(TlsHello("a.example", TlsExtension(42, ""))).hello.early_data);
}

}  // namespace
}  // namespace atl::netpolicy
