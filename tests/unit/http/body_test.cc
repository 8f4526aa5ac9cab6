#include "runtime/http/body.h"

#include <gtest/gtest.h>

namespace atl::http {
namespace {

// Feeds `wire` in pieces of `step` bytes; returns the body, or nothing if it is malformed.
std::optional<std::string> DecodeIn(const std::string& wire, size_t step, const Framing& framing,
                                    size_t* left) {
  BodyDecoder decoder(framing);
  std::string body;
  size_t at = 0;
  while (at < wire.size() && !decoder.done()) {
    std::string piece = wire.substr(at, step);
    const auto decoded = decoder.Decode(piece.data(), piece.size());
    if (!decoded) return std::nullopt;
    body.append(piece, 0, decoded->size);
    at += decoded->consumed;
  }
  *left = wire.size() - at;
  return body;
}

TEST(BodyDecoder, GivesTheSameWhereverTheInputIsCut) {
  const std::string wire =
      "5\r\nhello\r\n1;a=\"b\"\r\n \r\nA\r\nworld12345\r\n0\r\nX: y\r\n\r\nNEXT";
  for (size_t step = 1; step <= wire.size(); ++step) {
    size_t left = 0;
    EXPECT_EQ(DecodeIn(wire, step, {Framing::Kind::kChunked, 0}, &left), "hello world12345");
    EXPECT_EQ(left, 4U) << step;
  }
}

TEST(BodyDecoder, CountsALength) {
  size_t left = 0;
  EXPECT_EQ(DecodeIn("abcdef", 4, {Framing::Kind::kLength, 5}, &left), "abcde");
  EXPECT_EQ(left, 1U);
  BodyDecoder decoder({Framing::Kind::kLength, 5});
  EXPECT_EQ(decoder.remaining_length(), 5U);
  EXPECT_FALSE(decoder.AcceptsClose());
  EXPECT_TRUE(BodyDecoder({Framing::Kind::kLength, 0}).done());
}

TEST(BodyDecoder, EndsWithTheConnectionOnlyWhereThatIsTheFraming) {
  EXPECT_TRUE(BodyDecoder({Framing::Kind::kUntilClose, 0}).AcceptsClose());
  EXPECT_TRUE(BodyDecoder({Framing::Kind::kNone, 0}).AcceptsClose());
  EXPECT_FALSE(BodyDecoder({Framing::Kind::kChunked, 0}).AcceptsClose());
}

}  // namespace
}  // namespace atl::http
