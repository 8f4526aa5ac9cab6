#include "netpolicy/dns/dns_answer.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/netpolicy/dns_bytes.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the byte builders

std::span<const uint8_t> DnsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

DnsQuery Query(const std::string& message) {
  return ParseDnsQuery(DnsBytes(message))->query;
}

std::optional<DnsAnswer> ReadAnswer(const std::string& query, const std::string& message) {
  return ReadDnsAnswer(LookupOf(Query(query)), DnsBytes(message));
}

std::string Reply(const std::string& query, const std::string& message, uint32_t age = 0) {
  const auto answer = ReadAnswer(query, message);
  if (!answer) return "malformed";
  const auto reply = MakeDnsReply(Query(query), *answer, age);
  return {reply.begin(), reply.end()};
}

std::string A(const std::string& name, const std::string& address, uint32_t ttl = 60) {
  return DnsRecordBytes(DnsName(name), 1, ttl, address);
}

std::string Cname(const std::string& name, const std::string& target, uint32_t ttl = 60) {
  return DnsRecordBytes(DnsName(name), 5, ttl, DnsName(target));
}

std::string Soa(const std::string& zone, uint32_t ttl, uint32_t minimum) {
  return DnsRecordBytes(DnsName(zone), 6, ttl, DnsSoaData(zone, minimum));
}

const std::string kQuery = DnsQueryFor("www.example.com", 7);

TEST(DnsAnswer, KeepsTheAddressesOfTheName) {
  const std::string both =
      DnsRecordsTo(kQuery, {A("www.example.com", "abcd", 90), A("WWW.example.com", "efgh", 30)});
  const auto answer = ReadAnswer(kQuery, both);
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->addresses.size(), 2U);
  EXPECT_EQ(answer->addresses[1].bytes[3], 'h');
  EXPECT_TRUE(answer->aliases.empty());
  EXPECT_EQ(answer->ttl, 30U) << "the smallest";
  EXPECT_EQ(Reply(kQuery, both),
            DnsRecordsTo(kQuery, {DnsRecordBytes(U16(0xc00c), 1, 90, "abcd"),
                                  DnsRecordBytes(U16(0xc00c), 1, 30, "efgh")}));
}

TEST(DnsAnswer, FollowsAliasesInAnyOrder) {
  const std::string message =
      DnsRecordsTo(kQuery, {A("c.example", "abcd"), Cname("b.example", "c.example", 20),
                            Cname("www.example.com", "b.example", 600)});
  const auto answer = ReadAnswer(kQuery, message);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->aliases, (std::vector<std::string>{"b.example", "c.example"}));
  EXPECT_EQ(answer->ttl, 20U);
  // The rebuilt answer lists the aliases in order. Each owner is a pointer to the alias before it.
  // Offsets: 12 + 21 for the question, 12 for the head of a record, 11 for a name.
  EXPECT_EQ(
      Reply(kQuery, message),
      DnsRecordsTo(kQuery, {DnsRecordBytes(U16(0xc00c), 5, 600, DnsName("b.example")),
                            DnsRecordBytes(U16(0xc000 + 33 + 12), 5, 20, DnsName("c.example")),
                            DnsRecordBytes(U16(0xc000 + 33 + 12 + 11 + 12), 1, 60, "abcd")}));
}

TEST(DnsAnswer, AnAddressOfAnotherNameMakesItMalformed) {
  const auto message = [](const std::vector<std::string>& records) {
    return DnsRecordsTo(kQuery, records);
  };
  EXPECT_FALSE(
      ReadAnswer(kQuery, message({A("www.example.com", "abcd"), A("bank.example", "efgh")})));
  EXPECT_FALSE(ReadAnswer(kQuery, message({A("example.com", "abcd")})));
  EXPECT_FALSE(
      ReadAnswer(kQuery, message({Cname("www.example.com", "b.example"), A("x.example", "abcd")})));
  EXPECT_FALSE(
      ReadAnswer(kQuery, message({Cname("x.example", "b.example"), A("b.example", "abcd")})))
      << "an alias that nothing leads to";
  EXPECT_FALSE(ReadAnswer(kQuery, message({Cname("www.example.com", "b.example"),
                                           A("www.example.com", "abcd"), A("b.example", "efgh")})))
      << "a name that has an alias and an address";
  EXPECT_FALSE(ReadAnswer(
      kQuery, message({DnsRecordBytes(DnsName("x.example"), 28, 60, std::string(16, 'x'))})))
      << "of either family";
}

TEST(DnsAnswer, LeavesOutWhatDoesNotBelong) {
  const std::string additional = A("ns.example", "evil");
  std::string message = DnsRecordsTo(
      kQuery,
      {Cname("x.example", "y.example"), DnsRecordBytes(DnsName("x.example"), 16, 60, "\x03xyz"),
       DnsRecordBytes(DnsName("www.example.com"), 16, 60, "\x03xyz"),
       DnsRecordBytes(DnsName("www.example.com"), 46, 60, U16(1) + std::string(20, 's')),
       A("www.example.com", "abcd")},
      {DnsRecordBytes(DnsName("example.com"), 2, 60, DnsName("ns.example")),
       Soa("example.com", 60, 60)});
  message[11] = 1;
  message += additional;
  EXPECT_EQ(Reply(kQuery, message), DnsAnswerTo(kQuery, {'a', 'b', 'c', 'd'}));
}

TEST(DnsAnswer, GivesSignaturesToWhoWantsThem) {
  const std::string query = DnsHeaderBytes(7, 0x0100, 1, 0, 0, 1) + DnsName("a.b") + U16(1) +
                            U16(1) + DnsOptBytes(0x8000);
  const std::string of_a = U16(1) + std::string(20, 's'), of_txt = U16(16) + std::string(20, 't');
  const std::string message =
      DnsRecordsTo(query,
                   {A("a.b", "abcd"), DnsRecordBytes(DnsName("a.b"), 46, 60, of_a),
                    DnsRecordBytes(DnsName("a.b"), 46, 60, of_txt)},
                   {}, 0x81a0);
  std::string expected = DnsRecordsTo(query,
                                      {DnsRecordBytes(U16(0xc00c), 1, 60, "abcd"),
                                       DnsRecordBytes(U16(0xc00c), 46, 60, of_a)},
                                      {}, 0x81a0) +
                         DnsOptBytes(0x8000);
  expected[11] = 1;
  EXPECT_EQ(Reply(query, message), expected);
  const std::string plain = DnsQueryFor("a.b", 7);
  EXPECT_EQ(Reply(plain, message), DnsAnswerTo(plain, {'a', 'b', 'c', 'd'}))
      << "nor is it called authentic";
}

TEST(DnsAnswer, ChainsHaveAnEnd) {
  const auto chain = [](int length) {
    std::vector<std::string> records{A("n" + std::to_string(length), "abcd")};
    for (int i = 0; i < length; ++i) {
      records.push_back(Cname("n" + std::to_string(i), "n" + std::to_string(i + 1)));
    }
    return DnsRecordsTo(DnsQueryFor("n0", 7), records);
  };
  EXPECT_TRUE(ReadAnswer(DnsQueryFor("n0", 7), chain(16)));
  EXPECT_FALSE(ReadAnswer(DnsQueryFor("n0", 7), chain(17)));
  EXPECT_FALSE(ReadAnswer(
      kQuery, DnsRecordsTo(kQuery, {Cname("www.example.com", "b"), Cname("b", "www.example.com")})))
      << "a loop";
  EXPECT_FALSE(
      ReadAnswer(kQuery, DnsRecordsTo(kQuery, {Cname("www.example.com", "b"),
                                               Cname("www.example.com", "c"), A("b", "abcd")})))
      << "a fork";
}

TEST(DnsAnswer, UnpacksNamesInData) {
  const auto unpacked = [](unsigned type, const std::string& packed) {
    const std::string query = DnsQueryFor("www.example.com", 7, type);
    const auto answer =
        ReadAnswer(query, DnsRecordsTo(query, {DnsRecordBytes(U16(0xc00c), type, 60, packed)}));
    if (!answer) return std::string("malformed");
    return std::string(answer->records.begin() + 12, answer->records.end());
  };
  const std::string domain = U16(0xc00c + 4);  // example.com
  const std::string mail = "\x04mail" + domain, whole = DnsName("mail.example.com");
  EXPECT_EQ(unpacked(2, mail), whole);
  EXPECT_EQ(unpacked(12, mail), whole);
  EXPECT_EQ(unpacked(15, U16(10) + mail), U16(10) + whole);
  EXPECT_EQ(unpacked(33, U16(1) + U16(2) + U16(3) + mail), U16(1) + U16(2) + U16(3) + whole);
  const std::string strings = U16(1) + U16(2) + "\x01u\x03sip" + std::string(1, '\0');
  EXPECT_EQ(unpacked(35, strings + mail), strings + whole);
  EXPECT_EQ(unpacked(6, mail + domain + std::string(20, '0')),
            whole + DnsName("example.com") + std::string(20, '0'));
  EXPECT_EQ(unpacked(16, "\x02\xc0\x0c"), "\x02\xc0\x0c") << "text is no name";
  // Data that is longer or shorter than its content.
  for (const std::string& bad : {mail + "x", mail.substr(0, 5), std::string()}) {
    EXPECT_EQ(unpacked(2, bad), "malformed");
  }
  EXPECT_EQ(unpacked(15, "\x01"), "malformed");
  EXPECT_EQ(unpacked(35, U16(1) + U16(2) + "\x09u"), "malformed");
  EXPECT_EQ(unpacked(1, "abc"), "malformed");
  EXPECT_EQ(unpacked(28, "abcd"), "malformed");
}

// 500 short pointers to one long name would expand to 100 KB.
TEST(DnsAnswer, DoesNotGrowBeyondAMessage) {
  const std::string label = "\x3f" + std::string(63, 'x');
  const std::string query =
      DnsHeaderBytes(7, 0x0100, 1) + label + label + label + '\0' + U16(2) + U16(1);
  const auto message = [&](size_t count) {
    return DnsRecordsTo(
        query, std::vector<std::string>(count, DnsRecordBytes(U16(0xc00c), 2, 60, U16(0xc00c))));
  };
  EXPECT_TRUE(ReadAnswer(query, message(300)));
  EXPECT_FALSE(ReadAnswer(query, message(500)));
}

TEST(DnsAnswer, HasAnEndToAddresses) {
  const std::string query = DnsQueryFor("a", 7);
  const auto answer =
      ReadAnswer(query, DnsRecordsTo(query, std::vector<std::string>(400, A("a", "abcd"))));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->addresses.size(), 256U);
  EXPECT_EQ(answer->answers, 256U);
}

TEST(DnsAnswer, SeesIpv4InIpv6Clothes) {
  const std::string query = DnsQueryFor("a", 7, 28);
  const std::string mapped = std::string(10, '\0') + "\xff\xff" + "\xa9\xfe\xa9\xfe";
  const auto answer =
      ReadAnswer(query, DnsRecordsTo(query, {DnsRecordBytes(U16(0xc00c), 28, 60, mapped)}));
  ASSERT_EQ(answer->addresses.size(), 1U);
  EXPECT_FALSE(answer->addresses[0].ipv6);
  EXPECT_EQ(answer->addresses[0].bytes[0], 169);
}

TEST(DnsAnswer, CutsTtls) {
  EXPECT_EQ(ReadAnswer(kQuery, DnsAnswerTo(kQuery, {1, 2, 3, 4}, 86400))->ttl, 3600U);
  EXPECT_EQ(ReadAnswer(kQuery, DnsAnswerTo(kQuery, {1, 2, 3, 4}, 0x80000001))->ttl, 0U);
  const std::string message =
      DnsRecordsTo(kQuery, {A("www.example.com", "abcd", 86400), A("www.example.com", "efgh", 50)});
  EXPECT_EQ(Reply(kQuery, message, 40),
            DnsRecordsTo(kQuery, {DnsRecordBytes(U16(0xc00c), 1, 3560, "abcd"),
                                  DnsRecordBytes(U16(0xc00c), 1, 10, "efgh")}));
}

TEST(DnsAnswer, NegativeOnesKeepTheSoaOfTheirZone) {
  const auto negative = [](const std::string& soa, unsigned flags = 0x8183) {
    return DnsRecordsTo(kQuery, {}, {soa}, flags);
  };
  const std::string data = DnsSoaData("example.com", 70);
  for (const unsigned flags : {0x8183U, 0x8180U}) {
    EXPECT_EQ(Reply(kQuery, negative(Soa("example.com", 900, 70), flags)),
              negative(DnsRecordBytes(U16(0xc00c + 4), 6, 70, data), flags));
  }
  EXPECT_EQ(ReadAnswer(kQuery, negative(Soa("com", 60, 70)))->ttl, 60U);
  EXPECT_EQ(ReadAnswer(kQuery, negative(Soa("example.com", 9000, 9000)))->ttl, 300U);
  EXPECT_EQ(ReadAnswer(kQuery, negative(DnsRecordBytes(std::string(1, '\0'), 6, 60, data)))->ttl,
            60U);
  for (const char* zone : {"other.com", "ample.com", "x.www.example.com"}) {
    EXPECT_EQ(Reply(kQuery, negative(Soa(zone, 60, 60))), DnsEmptyAnswerTo(kQuery, 0x8183)) << zone;
    EXPECT_EQ(ReadAnswer(kQuery, negative(Soa(zone, 60, 60)))->ttl, 0U) << zone;
  }
}

TEST(DnsAnswer, NegativeOnesMayHaveAliases) {
  const std::string message = DnsRecordsTo(kQuery, {Cname("www.example.com", "b.example", 20)},
                                           {Soa("example", 60, 60)}, 0x8183);
  const auto answer = ReadAnswer(kQuery, message);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->ttl, 20U);
  EXPECT_EQ(
      Reply(kQuery, message),
      DnsRecordsTo(kQuery, {DnsRecordBytes(U16(0xc00c), 5, 20, DnsName("b.example"))},
                   {DnsRecordBytes(U16(0xc000 + 33 + 12 + 2), 6, 60, DnsSoaData("example", 60))},
                   0x8183));
}

TEST(DnsAnswer, FailuresHaveNoRecords) {
  std::string message = DnsAnswerTo(kQuery, {6, 6, 6, 6});
  message[3] = static_cast<char>(0x85);
  EXPECT_EQ(Reply(kQuery, message), DnsEmptyAnswerTo(kQuery, 0x8185));
  message[3] = static_cast<char>(0x83);
  EXPECT_TRUE(ReadAnswer(kQuery, message)->addresses.empty()) << "a name that does not exist";
}

TEST(DnsAnswer, BelongsToItsQuestion) {
  const std::string other = DnsQueryFor("www.example.org", 7),
                    type = DnsQueryFor("www.example.com", 7, 28);
  EXPECT_FALSE(ReadAnswer(kQuery, DnsAnswerTo(other, {1, 2, 3, 4})));
  EXPECT_FALSE(ReadAnswer(kQuery, DnsAnswerTo(type, {1, 2, 3, 4})));
  const std::string upper = DnsQueryFor("WWW.EXAMPLE.COM", 7);
  EXPECT_TRUE(ReadAnswer(kQuery, DnsAnswerTo(upper, {1, 2, 3, 4})));
  EXPECT_EQ(Reply(upper, DnsAnswerTo(kQuery, {1, 2, 3, 4})), DnsAnswerTo(upper, {1, 2, 3, 4}));
}

TEST(DnsAnswer, OfOurOwn) {
  IpAddress v4, v6;
  v4.bytes = {10, 0, 0, 1};
  v6.ipv6 = true;
  v6.bytes = {0xfd, 1};
  const std::vector<IpAddress> both{v4, v6};
  const auto reply = MakeDnsReply(Query(kQuery), MakeDnsAnswer(1, both, 5));
  EXPECT_EQ(std::string(reply.begin(), reply.end()), DnsAnswerTo(kQuery, {10, 0, 0, 1}, 5));
  const std::string quad = DnsQueryFor("www.example.com", 7, 28);
  EXPECT_EQ(MakeDnsAnswer(28, both, 5).addresses, std::vector{v6});
  const auto none = MakeDnsReply(Query(quad), MakeDnsAnswer(28, std::span(both).first(1), 5));
  EXPECT_EQ(std::string(none.begin(), none.end()), DnsEmptyAnswerTo(quad, 0x8180));
}

TEST(DnsLookup, FromText) {
  const auto lookup = LookupOf("WWW.example.com", 28);
  ASSERT_TRUE(lookup.has_value());
  EXPECT_EQ(*lookup, LookupOf(Query(DnsQueryFor("www.Example.com", 7, 28))));
  EXPECT_EQ(DnsLabelCount(lookup->name), 3U);
  const std::string label(63, 'x');
  EXPECT_TRUE(LookupOf(label + '.' + label + '.' + label + '.' + std::string(61, 'x'), 1));
  EXPECT_FALSE(LookupOf(label + '.' + label + '.' + label + '.' + std::string(62, 'x'), 1));
  for (const std::string& bad :
       {std::string(), std::string("."), std::string("a..b"), std::string(".a"), label + "x",
        std::string("a b"), std::string("a\\046b"), std::string("a\0b", 3)}) {
    EXPECT_FALSE(LookupOf(bad, 1)) << bad;
  }
}

}  // namespace
}  // namespace atl::netpolicy
