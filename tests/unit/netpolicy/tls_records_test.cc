#include "netpolicy/splice/tls_records.h"

#include <gtest/gtest.h>

#include "tests/unit/netpolicy/tls_bytes.h"

namespace atl::testing {
namespace {

using netpolicy::ClientHello;
using netpolicy::TlsRecords;
using Kind = TlsRecords::Kind;

const std::string kChangeCipherSpec = TlsRecord("\x01", 20, 0x0303);
const std::string kData = TlsRecord("secret", 23, 0x0303);

// Reads `bytes` after a first hello. Returns how many pass, and what stops them.
std::pair<size_t, Kind> Behind(const ClientHello& first, const std::string& bytes) {
  TlsRecords records;
  records.Begin(first);
  size_t passed = 0;
  while (true) {
    const auto piece = records.Take(std::string_view(bytes).substr(passed));
    EXPECT_EQ(piece.kind == Kind::kRefused, piece.reason != nullptr);
    if (piece.kind != Kind::kPass) return {passed, piece.kind};
    passed += piece.size;
  }
}

const ClientHello kFirst{.name = "a.example", .encrypted = false, .early_data = false};

TEST(TlsRecords, LookNoFurtherThanTheHandshake) {
  EXPECT_EQ(Behind(kFirst, TlsKeyExchange()), std::pair(size_t{0}, Kind::kOpaque)) << "TLS 1.2";
  const std::string finished = TlsRecord(std::string(40, '\0'), 22, 0x0303);
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + finished),
            std::pair(kChangeCipherSpec.size(), Kind::kOpaque))
      << "a resumed session of TLS 1.2";
  const std::string much = TlsRecord(std::string(16000, 'x'), 23, 0x0303);
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + much + much + much),
            std::pair(kChangeCipherSpec.size() + 2 * much.size(), Kind::kOpaque));
}

TEST(TlsRecords, RefuseWhatNoClientSendsThere) {
  for (const std::string& bytes : {std::string("no TLS"), TlsRecord("?", 24), TlsRecord(""),
                                   TlsRecord(std::string(4, '\0')), TlsRecord("\x14")}) {
    EXPECT_EQ(Behind(kFirst, bytes), std::pair(size_t{0}, Kind::kRefused)) << bytes;
  }
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + TlsRecord("")),
            std::pair(kChangeCipherSpec.size(), Kind::kRefused));
}

TEST(TlsRecords, EachLaterHelloHasTheNameOfTheFirst) {
  const std::string good = TlsHello("A.Example"), evil = TlsHello("b.example");
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + good + kData),
            std::pair(kChangeCipherSpec.size() + good.size() + kData.size(), Kind::kMore));
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + evil),
            std::pair(kChangeCipherSpec.size(), Kind::kRefused));
  EXPECT_EQ(Behind(kFirst, good + evil), std::pair(good.size(), Kind::kRefused));
  EXPECT_EQ(Behind(kFirst, kData + evil), std::pair(kData.size(), Kind::kRefused));
  EXPECT_EQ(Behind(kFirst, TlsRecord(TlsMessage(TlsBody("")))).second, Kind::kRefused) << "none";
  EXPECT_EQ(Behind(kFirst, TlsHello("a.example", TlsExtension(0xfe0d, "hidden"))).second,
            Kind::kRefused);
  EXPECT_EQ(Behind(kFirst, TlsRecord(TlsMessage("no hello"))).second, Kind::kRefused);
  EXPECT_EQ(Behind(kFirst, TlsRecord(good.substr(5) + "\x01")).second, Kind::kRefused) << "more";
}

TEST(TlsRecords, PutAHelloTogetherWhateverLiesBetween) {
  const std::string message = TlsHello("b.example").substr(5);
  const std::string honest = TlsHello("a.example").substr(5);
  for (const std::string& between : {std::string(), kChangeCipherSpec, TlsRecord("\x01\x5a", 21),
                                     kData, TlsRecord("", 23), TlsRecord("", 20)}) {
    for (const size_t cut : {1U, 3U, 4U, 30U, 100U}) {
      const std::string start = TlsRecord(message.substr(0, cut)) + between;
      EXPECT_EQ(Behind(kFirst, start + TlsRecord(message.substr(cut))),
                std::pair(start.size(), Kind::kRefused));
      const std::string whole =
          TlsRecord(honest.substr(0, cut)) + between + TlsRecord(honest.substr(cut));
      EXPECT_EQ(Behind(kFirst, whole), std::pair(whole.size(), Kind::kMore));
    }
  }
  // A message in many records that never ends.
  std::string part = TlsRecord(TlsNumber(1, 1) + TlsNumber(0xffffff, 3));
  for (int i = 0; i < 20; ++i) part += TlsRecord(std::string(1000, 'x'));
  EXPECT_EQ(Behind(kFirst, part).second, Kind::kRefused);
}

// A resumed session of TLS 1.2 whose encrypted message begins like a hello.
TEST(TlsRecords, PassWhatOnlyLooksLikeTheStartOfAHello) {
  const std::string finished = TlsRecord("\x01" + std::string(39, '\x5a'), 22, 0x0303);
  const std::string bytes = kChangeCipherSpec + finished + kData;
  EXPECT_EQ(Behind(kFirst, bytes), std::pair(bytes.size(), Kind::kMore));
}

TEST(TlsRecords, EarlyDataIsNoEndOfTheHandshake) {
  ClientHello first = kFirst;
  first.early_data = true;
  EXPECT_EQ(Behind(first, kData + kData + TlsHello("b.example")),
            std::pair(2 * kData.size(), Kind::kRefused));
  EXPECT_EQ(Behind(first, kData + TlsHello("a.example")).second, Kind::kMore);
  EXPECT_EQ(Behind(first, kData), std::pair(kData.size(), Kind::kMore));
}

TEST(TlsRecords, WaitForAWholeHelloOnly) {
  const std::string hello = TlsHello("b.example");
  for (size_t size = 0; size < hello.size(); ++size) {
    EXPECT_EQ(Behind(kFirst, hello.substr(0, size)), std::pair(size_t{0}, Kind::kMore)) << size;
  }
  for (size_t size = 0; size < 5; ++size) {
    EXPECT_EQ(Behind(kFirst, kChangeCipherSpec.substr(0, size)).first, 0U) << size;
  }
  TlsRecords records;
  records.Begin(kFirst);
  EXPECT_EQ(records.Take(kChangeCipherSpec.substr(0, 5)).size, 5U);
  EXPECT_EQ(records.body_left(), 1U);
  records.Skip(1);
  EXPECT_EQ(records.Take(hello).kind, Kind::kRefused);
}

}  // namespace
}  // namespace atl::testing
