#include "netpolicy/dns/dns_message.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/netpolicy/dns_bytes.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the byte builders

std::span<const uint8_t> MessageBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(DnsQuery, TakesAPlainQuestion) {
  const std::string message = DnsQueryFor("Www.Example.COM", 4711, 28);
  const auto result = ParseDnsQuery(MessageBytes(message));
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->rcode, DnsRcode::kNoError);
  EXPECT_EQ(result->query.header.id, 4711);
  EXPECT_EQ(result->query.question.name, "www.example.com");
  EXPECT_EQ(result->query.question.type, 28);
  EXPECT_FALSE(result->query.edns);
  EXPECT_EQ(result->query.udp_size, 512U);
}

TEST(DnsQuery, ReadsTheEdnsSize) {
  const std::string big = DnsEdnsQueryFor("example.com", 1, 4096);
  EXPECT_EQ(ParseDnsQuery(MessageBytes(big))->query.udp_size, 4096U);
  const std::string small = DnsEdnsQueryFor("example.com", 1, 100);
  EXPECT_EQ(ParseDnsQuery(MessageBytes(small))->query.udp_size, 512U) << "RFC 6891 section 6.2.3";
}

TEST(DnsQuery, EscapesWhatIsNotPlain) {
  const std::string name = std::string("\x03") + "a.b" + "\x02" + "\\\n" + '\0';
  const std::string message = DnsHeaderBytes(1, 0x0100, 1) + name + U16(1) + U16(1);
  EXPECT_EQ(ParseDnsQuery(MessageBytes(message))->query.question.name, "a\\046b.\\092\\010");
}

TEST(DnsQuery, RefusesWhatIsNoPlainQuestion) {
  const std::string question = DnsName("example.com") + U16(1) + U16(1);
  const std::string label63(63, 'x');
  const auto header = [](unsigned flags) { return DnsHeaderBytes(1, flags, 1); };
  std::string too_long;
  for (int i = 0; i < 4; ++i) too_long += '\x3f' + label63;
  const std::string opt_named = DnsName("x") + U16(41) + U16(512) + U16(0) + U16(0) + U16(0);
  const struct {
    const char* what;
    std::string message;
    DnsRcode rcode;
  } cases[] = {
      {"inverse query", header(0x0800) + question, DnsRcode::kNotImplemented},
      {"update", header(0x2800) + question, DnsRcode::kNotImplemented},
      {"no question", DnsHeaderBytes(1, 0x0100, 0), DnsRcode::kFormatError},
      {"two questions", DnsHeaderBytes(1, 0x0100, 2) + question + question, DnsRcode::kFormatError},
      {"an answer", DnsHeaderBytes(1, 0x0100, 1, 1) + question, DnsRcode::kFormatError},
      {"an authority", DnsHeaderBytes(1, 0x0100, 1, 0, 1) + question, DnsRcode::kFormatError},
      {"two additionals", DnsHeaderBytes(1, 0x0100, 1, 0, 0, 2) + question, DnsRcode::kFormatError},
      {"a record that is not EDNS",
       DnsHeaderBytes(1, 0x0100, 1, 0, 0, 1) + question + std::string(1, '\0') + U16(250) +
           U16(255) + U16(0) + U16(0) + U16(0),
       DnsRcode::kFormatError},
      {"EDNS with a name", DnsHeaderBytes(1, 0x0100, 1, 0, 0, 1) + question + opt_named,
       DnsRcode::kFormatError},
      {"bytes behind it", header(0x0100) + question + "x", DnsRcode::kFormatError},
      {"cut in the type", header(0x0100) + DnsName("example.com") + "\x01", DnsRcode::kFormatError},
      {"cut in the name",
       header(0x0100) + "\x07"
                        "exa",
       DnsRcode::kFormatError},
      {"name without end",
       header(0x0100) + "\x01"
                        "a",
       DnsRcode::kFormatError},
      {"name over 255 bytes", header(0x0100) + too_long + '\0' + U16(1) + U16(1),
       DnsRcode::kFormatError},
      {"compressed question", header(0x0100) + U16(0xc00c) + U16(1) + U16(1),
       DnsRcode::kFormatError},
      {"label type 01",
       header(0x0100) +
           "\x41"
           "a" +
           '\0' + U16(1) + U16(1),
       DnsRcode::kFormatError},
      {"zone transfer", header(0x0100) + DnsName("example.com") + U16(252) + U16(1),
       DnsRcode::kRefused},
      {"class chaos", header(0x0100) + DnsName("version.bind") + U16(16) + U16(3),
       DnsRcode::kRefused},
  };
  for (const auto& c : cases) {
    const auto result = ParseDnsQuery(MessageBytes(c.message));
    ASSERT_TRUE(result.has_value()) << c.what;
    EXPECT_EQ(result->rcode, c.rcode) << c.what;
  }
}

TEST(DnsQuery, DoesNotAnswerAnswersOrScraps) {
  const std::string answer = DnsHeaderBytes(1, 0x8180, 1) + DnsName("a") + U16(1) + U16(1);
  EXPECT_FALSE(ParseDnsQuery(MessageBytes(answer)).has_value());
  EXPECT_FALSE(ParseDnsQuery(MessageBytes(std::string(11, '\0'))).has_value());
  EXPECT_FALSE(ParseDnsQuery({}).has_value());
}

TEST(DnsResponse, ReadsRecordsWithCompressedNames) {
  const std::string message = DnsAnswerTo(DnsQueryFor("Example.com", 7), {192, 0, 2, 80});
  const auto response = ParseDnsResponse(MessageBytes(message));
  ASSERT_TRUE(response.has_value());
  ASSERT_EQ(response->records.size(), 1U);
  EXPECT_EQ(response->records[0].name, "example.com");
  EXPECT_EQ(response->records[0].type, 1);
  EXPECT_EQ(response->records[0].ttl, 60U);
  EXPECT_EQ(std::string(response->records[0].data.begin(), response->records[0].data.end()),
            "\xc0" + std::string(1, '\0') + "\x02\x50");
}

std::string AnswerWithName(const std::string& name) {
  return DnsHeaderBytes(1, 0x8180, 1, 1) + DnsName("example.com") + U16(1) + U16(1) + name +
         U16(1) + U16(1) + U16(0) + U16(60) + U16(4) + "abcd";
}

TEST(DnsResponse, RefusesPointersThatDoNotLeadBack) {
  // The record's name is at 12 + 13 + 4 = 29.
  EXPECT_TRUE(ParseDnsResponse(MessageBytes(AnswerWithName(U16(0xc00c)))).has_value());
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(AnswerWithName(U16(0xc000 + 29)))).has_value())
      << "itself";
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(AnswerWithName(U16(0xc000 + 31)))).has_value())
      << "ahead";
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(AnswerWithName(U16(0xc000)))).has_value())
      << "the header";
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(AnswerWithName("\x01"
                                                            "a" +
                                                            U16(0xc000 + 29))))
                   .has_value())
      << "a loop through a label";
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(AnswerWithName(U16(0xffff)))).has_value()) << "beyond";
}

TEST(DnsResponse, HasAnEndToRecords) {
  const std::string query = DnsQueryFor("example.com", 7);
  const auto message = [&](size_t count) {
    return DnsRecordsTo(
        query, std::vector<std::string>(count, DnsRecordBytes(U16(0xc00c), 1, 60, "abcd")));
  };
  EXPECT_TRUE(ParseDnsResponse(MessageBytes(message(512))).has_value());
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(message(513))).has_value());
}

// Each pointer leads to the one before it, the first to the question.
TEST(DnsResponse, RefusesLongChainsOfPointers) {
  const auto message = [](unsigned jumps) {
    std::string pointers = U16(0xc00c);
    for (unsigned i = 1; i + 1 < jumps; ++i) pointers += U16(0xc000 + 40 + 2 * (i - 1));
    const std::string text = DnsRecordBytes(std::string(1, '\0'), 16, 60, pointers);
    const auto last = static_cast<unsigned>(40 + pointers.size() - 2);
    return DnsHeaderBytes(1, 0x8180, 1, 2) + DnsName("example.com") + U16(1) + U16(1) + text +
           DnsRecordBytes(U16(0xc000 + last), 1, 60, "abcd");
  };
  // The text begins at 12 + 13 + 4 + 11 = 40.
  const auto response = ParseDnsResponse(MessageBytes(message(127)));
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->records[1].name, "example.com");
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(message(128))).has_value());
}

TEST(DnsResponse, EveryPrefixOfAMessageIsRefused) {
  const std::string message = DnsAnswerTo(DnsQueryFor("example.com", 7), {192, 0, 2, 80});
  for (size_t size = 0; size < message.size(); ++size) {
    EXPECT_FALSE(ParseDnsResponse(MessageBytes(message.substr(0, size))).has_value()) << size;
  }
  EXPECT_FALSE(ParseDnsResponse(MessageBytes(message + "x")).has_value());
}

TEST(DnsResponse, TruncatedOnesMayEndAnywhereAfterTheQuestion) {
  const std::string query = DnsQueryFor("example.com", 7);
  std::string message = DnsAnswerTo(query, {192, 0, 2, 80});
  message[2] = static_cast<char>(0x83);
  message.resize(query.size() + 5);
  const auto response = ParseDnsResponse(MessageBytes(message));
  ASSERT_TRUE(response.has_value());
  EXPECT_TRUE(response->header.truncated());
  EXPECT_TRUE(response->records.empty());
}

TEST(DnsAnswers, OfOurOwn) {
  const std::string query = DnsQueryFor("example.com", 0x1234);
  const auto error = MakeDnsError(MessageBytes(query), DnsRcode::kServerFailure);
  EXPECT_EQ(std::string(error.begin(), error.end()), DnsEmptyAnswerTo(query, 0x8182));
  // Only the header parses.
  const std::string scrap = DnsHeaderBytes(0x1234, 0x0100, 1) + "\x7f";
  const auto format = MakeDnsError(MessageBytes(scrap), DnsRcode::kFormatError);
  EXPECT_EQ(std::string(format.begin(), format.end()), DnsHeaderBytes(0x1234, 0x8181, 0));
}

}  // namespace
}  // namespace atl::netpolicy
