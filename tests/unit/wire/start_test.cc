#include "runtime/wire/start.h"

#include <gtest/gtest.h>

namespace atl::wire {
namespace {

const std::string kBegin = "-----BEGIN CERTIFICATE-----\n";
const std::string kEnd = "-----END CERTIFICATE-----\n";

StartMessage With(const std::string& certificate, const std::string& link) {
  StartMessage message;
  message.authority = {certificate, link};
  return message;
}

bool Reads(const std::string& certificate, const std::string& link) {
  return DecodeStartMessage(With(certificate, link).Encode()).has_value();
}

TEST(WireStart, AnAuthorityOrNone) {
  const std::string certificate = kBegin + "QUJD+/==\n" + kEnd;
  const StartMessage message = With(certificate, "0a1b2c3d.0");
  const auto read = DecodeStartMessage(message.Encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->authority, message.authority);
  EXPECT_TRUE(Reads("", ""));
  EXPECT_FALSE(Reads("", "0a1b2c3d.0"));
  EXPECT_FALSE(Reads(certificate, ""));
}

// execd appends the authority to files of the image, and creates a file with that name.
TEST(WireStart, AnAuthorityIsOneCertificateAndAPlainName) {
  const std::string good = kBegin + "QQ==\n" + kEnd;
  for (const std::string& bad :
       {good + good, "x\n" + good, good + "x", kBegin + "Q Q\n" + kEnd, kBegin + kEnd,
        kBegin + "# x\n" + kEnd, kBegin + std::string(1, '\0') + "\n" + kEnd,
        kBegin + "QQ==", kBegin + std::string(kMaxCertificate, 'A') + "\n" + kEnd}) {
    EXPECT_FALSE(Reads(bad, "0a1b2c3d.0")) << bad.substr(0, 80);
  }
  for (const char* bad : {"../x/0a1.0", "0a1b2c3d", "0a1b2c3.0", "0a1b2c3d.1", "0A1B2C3D.0",
                          "0a1b2c3d.00", "0a1b2c3d.0/", "0a1b/c3d.0"}) {
    EXPECT_FALSE(Reads(good, bad)) << bad;
  }
}

}  // namespace
}  // namespace atl::wire
