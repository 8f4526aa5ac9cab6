#include "runtime/base/base64.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

// RFC 4648, section 10.
TEST(Base64, VectorsOfTheRfc) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(EncodeBase64(bytes), text);
    EXPECT_EQ(DecodeBase64(text), bytes) << text;
  }
}

TEST(Base64, EveryByteComesBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  for (size_t left = 0; left < 3; ++left) {
    const std::string_view some = std::string_view(bytes).substr(left);
    EXPECT_EQ(EncodeBase64(some).size(), (some.size() + 2) / 3 * 4);
    EXPECT_EQ(DecodeBase64(EncodeBase64(some)), some);
  }
}

TEST(Base64, PaddingMayBeLeftOut) {
  EXPECT_EQ(DecodeBase64("Zg"), "f");
  EXPECT_EQ(DecodeBase64("Zm8"), "fo");
}

TEST(Base64, OnlyOneTextForTheSameBytes) {
  for (const char* text : {"Z", "Zg=", "Zg===", "Zh==", "Zm9=", "Z g=", "Zg==\n", "Z-8_", "=",
                           "====", "Zm9v=", "Zg==Zg=="}) {
    EXPECT_FALSE(DecodeBase64(text)) << text;
  }
}

}  // namespace
}  // namespace atl
