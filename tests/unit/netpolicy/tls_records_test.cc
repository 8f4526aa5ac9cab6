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

// What becomes of `bytes` behind a first hello: how many pass, and what stops them.
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
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + kData),
            std::pair(kChangeCipherSpec.size(), Kind::kOpaque));
  EXPECT_EQ(Behind(kFirst, TlsRecord(TlsNumber(16, 1) + TlsSized("key", 3))),
            std::pair(size_t{0}, Kind::kOpaque))
      << "the key exchange of TLS 1.2";
  EXPECT_EQ(Behind(kFirst, "no TLS"), std::pair(size_t{0}, Kind::kOpaque));
}

TEST(TlsRecords, ASecondHelloHasTheNameOfTheFirst) {
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + TlsHello("a.example")).second, Kind::kOpaque);
  EXPECT_EQ(Behind(kFirst, TlsHello("A.Example")).second, Kind::kOpaque);
  EXPECT_EQ(Behind(kFirst, kChangeCipherSpec + TlsHello("b.example")),
            std::pair(kChangeCipherSpec.size(), Kind::kRefused));
  EXPECT_EQ(Behind(kFirst, TlsRecord(TlsMessage(TlsBody("")))).second, Kind::kRefused) << "none";
  EXPECT_EQ(Behind(kFirst, TlsHello("a.example", TlsExtension(0xfe0d, "hidden"))).second,
            Kind::kRefused);
  EXPECT_EQ(Behind(kFirst, TlsRecord(TlsMessage("no hello"))).second, Kind::kRefused);
}

TEST(TlsRecords, EarlyDataIsNoEndOfTheHandshake) {
  ClientHello first = kFirst;
  first.early_data = true;
  EXPECT_EQ(Behind(first, kData + kData + TlsHello("b.example")),
            std::pair(2 * kData.size(), Kind::kRefused));
  EXPECT_EQ(Behind(first, kData + TlsHello("a.example")).second, Kind::kOpaque);
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
