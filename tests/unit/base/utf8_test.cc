#include "runtime/base/utf8.h"

#include <gtest/gtest.h>

#include <utility>

namespace atl {
namespace {

TEST(Utf8, CodeAndLengthOfACharacter) {
  const std::pair<const char*, Utf8Character> cases[] = {
      {"a\xff", {'a', 1}},
      {"\xc3\xbcz", {0xfc, 2}},
      {"\xe2\x82\xac", {0x20ac, 3}},
      {"\xf0\x9f\x98\x80", {0x1f600, 4}},
      {"\xf4\x8f\xbf\xbf", {0x10ffff, 4}},
      {"\x80", {0, 0}},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_EQ(FirstUtf8(text).code, wanted.code) << text;
    EXPECT_EQ(FirstUtf8(text).length, wanted.length) << text;
  }
}

TEST(Utf8, IsToldFromBytes) {
  for (const char* text : {"", "abc", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text : {"\x80", "\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xffz",
                           "\xe2\x82", "\xe2\x82z", "\xf0\x9f\x98"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(Utf8, UnfinishedIsWhatOnlyMoreBytesCanEnd) {
  const std::string whole = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  EXPECT_EQ(UnfinishedUtf8(whole), 0U);
  EXPECT_EQ(UnfinishedUtf8(whole.substr(0, 2)), 1U);
  EXPECT_EQ(UnfinishedUtf8(whole.substr(0, 5)), 2U);
  EXPECT_EQ(UnfinishedUtf8(whole.substr(0, 9)), 3U);
  EXPECT_EQ(UnfinishedUtf8(""), 0U);
  for (const char* never : {"\xff", "\xc0", "\xf5\x80", "\x80\x80\x80\x80"}) {
    EXPECT_EQ(UnfinishedUtf8(never), 0U) << never;
  }
}

}  // namespace
}  // namespace atl
