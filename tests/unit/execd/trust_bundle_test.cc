#include "execd/trust/bundle.h"

#include <gtest/gtest.h>

namespace atl::execd {
namespace {

std::string Pem(const std::string& body) {
  return "-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----\n";
}

const std::string kMark(kAuthorityMark);
const std::string kOurs = Pem("T1VS");
const std::string kParents = Pem("UEFSRU5U");

TEST(TrustBundle, OursComesLast) {
  EXPECT_EQ(WithAuthority("", kOurs, ""), kMark + kOurs);
  const std::string image = "# one\n" + Pem("QQ==") + "\n# two\n" + Pem("Qg==");
  EXPECT_EQ(WithAuthority(image, kOurs, ""), image + kMark + kOurs);
  EXPECT_EQ(WithAuthority("no newline", kOurs, ""), "no newline\n" + kMark + kOurs);
}

TEST(TrustBundle, ThereIsNeverMoreThanOneOfOurs) {
  const std::string image = "# one\n" + Pem("QQ==") + Pem("Qg==");
  const std::string once = WithAuthority(image, kOurs, "");
  EXPECT_EQ(WithAuthority(once, kOurs, kOurs), once);
  EXPECT_EQ(WithAuthority(once, kOurs, ""), once);
  const std::string parents = WithAuthority(image, kParents, "");
  EXPECT_EQ(WithAuthority(parents, kOurs, ""), once) << "found by its mark";
  EXPECT_EQ(WithAuthority(kMark + kParents + image + kMark + kParents, kOurs, ""), once);
}

TEST(TrustBundle, AParentsIsFoundWithoutItsMark) {
  const std::string image = Pem("QQ==");
  EXPECT_EQ(WithAuthority(kParents + image, kOurs, kParents), image + kMark + kOurs);
  EXPECT_EQ(WithAuthority(kParents + image, kOurs, kMark + kParents), image + kMark + kOurs);
  EXPECT_EQ(WithAuthority(kParents + image, kOurs, Pem("UEFS")), kParents + image + kMark + kOurs);
}

TEST(TrustBundle, WhatIsNoBundleStaysAsItIs) {
  for (const std::string& odd :
       {kMark, kMark + "\n" + Pem("QQ=="), std::string("-----BEGIN CERTIFICATE-----\nQQ==\n"),
        std::string("-----END CERTIFICATE-----\n") + Pem("QQ=="), std::string("a\0b\n", 4)}) {
    EXPECT_EQ(WithAuthority(odd, kOurs, ""), odd + kMark + kOurs);
  }
  // A former authority that is not a certificate matches nothing.
  EXPECT_EQ(WithAuthority(Pem("QQ=="), kOurs, "-----BEGIN CERTIFICATE-----"),
            Pem("QQ==") + kMark + kOurs);
}

TEST(TrustBundle, HoldsCertificate) {
  EXPECT_TRUE(HoldsCertificate("# one\n" + Pem("QQ==")));
  for (const char* none :
       {"", "root:x:0:0::/root:/bin/sh\n", "-----BEGIN CERTIFICATE-----\nQQ=="}) {
    EXPECT_FALSE(HoldsCertificate(none)) << none;
  }
}

// The test would take seconds if a block without an end, or a former authority that nearly matches,
// were scanned more than once.
TEST(TrustBundle, IsLinear) {
  std::string many;
  for (int i = 0; i < 150'000; ++i) many += "-----BEGIN CERTIFICATE-----\n";
  EXPECT_EQ(WithAuthority(many, kOurs, many).size(), many.size() + kMark.size() + kOurs.size());
  std::string marks;
  for (int i = 0; i < 50'000; ++i) marks += kMark + kParents;
  EXPECT_EQ(WithAuthority(marks, kOurs, ""), kMark + kOurs);
}

}  // namespace
}  // namespace atl::execd
