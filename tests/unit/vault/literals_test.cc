// Searching and encoding.
#include "netpolicy/vault/literals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "netpolicy/vault/encoding.h"

namespace atl::vault {
namespace {

std::string Replaced(std::string_view text, const std::vector<Replacement>& replacements) {
  const auto result = ReplaceOnce(text, replacements, 1000);
  if (!result) return "refused";
  return result->value_or("nothing");
}

TEST(Literals, OccurrencesMayOverlap) {
  using Places = std::vector<uint32_t>;
  EXPECT_EQ(Occurrences("aaaa", "aa"), (Places{0, 1, 2}));
  EXPECT_EQ(Occurrences("abcabcab", "abcab"), (Places{0, 3}));
  EXPECT_EQ(Occurrences("abc", "abc"), (Places{0}));
  EXPECT_EQ(Occurrences("abc", "abcd"), Places{});
  EXPECT_EQ(Occurrences("abc", ""), Places{});
  EXPECT_EQ(Occurrences(std::string_view("a\0b\0", 4), std::string_view("\0", 1)), (Places{1, 3}));
}

TEST(Literals, AreReplacedOnceFromTheLeftAndLongestFirst) {
  EXPECT_EQ(Replaced("xAy", {{"A", "1"}}), "x1y");
  EXPECT_EQ(Replaced("xay", {{"A", "1"}}), "nothing");
  EXPECT_EQ(Replaced("", {{"A", "1"}}), "nothing");
  EXPECT_EQ(Replaced("AB", {{"A", "B"}, {"B", "A"}}), "BA");
  EXPECT_EQ(Replaced("TOKEN_2 TOKEN", {{"TOKEN", "1"}, {"TOKEN_2", "2"}}), "2 1");
  EXPECT_EQ(Replaced("aaa", {{"aa", "b"}}), "ba");
  EXPECT_EQ(Replaced("abc", {{"ab", "1"}, {"bc", "2"}}), "1c");
  EXPECT_EQ(Replaced("pp", {{"p", "1"}, {"p", "2"}}), "11");
  EXPECT_EQ(Replaced("p", {{"p", ""}}), "");
}

TEST(Literals, MayNotGrowWithoutBound) {
  const std::string text(100, 'p');
  EXPECT_TRUE(ReplaceOnce(text, {{"p", "1234567890"}}, 1000));
  const auto refused = ReplaceOnce(text, {{"p", "1234567890"}}, 999);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.error().message().find("1234567890"), std::string::npos);
}

// A search that starts again at each byte would take minutes.
TEST(Literals, TakeTimeLinearInTheText) {
  const std::string text = std::string(4 << 20, 'a') + "b";
  const std::string at_the_end = std::string(1 << 20, 'a') + "b";
  const std::string nowhere = std::string(1 << 20, 'a') + "c";
  const auto start = std::chrono::steady_clock::now();
  const auto replaced = ReplaceOnce(text, {{at_the_end, "x"}, {nowhere, "y"}}, 8 << 20);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ASSERT_TRUE(replaced && *replaced);
  EXPECT_EQ(**replaced, std::string(3 << 20, 'a') + "x");
}

TEST(Encoding, OfValues) {
  EXPECT_EQ(UrlEncoded("aZ9-._~ /?&=+%\xc3\xbc\n"), "aZ9-._~%20%2F%3F%26%3D%2B%25%C3%BC%0A");
  EXPECT_EQ(FormEncoded("a b+c&"), "a+b%2Bc%26");
  EXPECT_EQ(JsonEscaped("\"\\\b\f\n\r\t\x01/<&\x7f", JsonStyle::kAscii),
            "\\\"\\\\\\b\\f\\n\\r\\t\\u0001/<&\\u007f");
  EXPECT_EQ(JsonEscaped("\xc3\xbc\xe2\x80\xa8\xf0\x9f\x98\x80", JsonStyle::kAscii),
            "\\u00fc\\u2028\\ud83d\\ude00");
  EXPECT_EQ(JsonEscaped("<>&\xc3\xbc\xe2\x80\xa8\x7f", JsonStyle::kHtml),
            "\\u003c\\u003e\\u0026\xc3\xbc\\u2028\x7f");
  EXPECT_EQ(JsonEscaped("a\xff"
                        "b",
                        JsonStyle::kAscii),
            "a\xff"
            "b");
}

}  // namespace
}  // namespace atl::vault
