#include "runtime/http/body.h"

#include <gtest/gtest.h>

namespace atl::http {
namespace {

// Feeds `wire` in pieces of `step` bytes. Returns the body, or nothing if it is malformed.
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

TEST(BodyDecoder, TellsBodyFromFraming) {
  BodyDecoder decoder({Framing::Kind::kChunked, 0});
  const auto next = [&](std::string_view bytes) {
    const auto run = decoder.Next(bytes);
    return run ? std::pair(run->size, run->body) : std::pair(size_t{0}, false);
  };
  EXPECT_EQ(next("5;x=y\r\nabcde\r\n"), std::pair(size_t{7}, false));
  EXPECT_EQ(decoder.body_left(), 5U);
  EXPECT_EQ(next("ab"), std::pair(size_t{2}, true));
  decoder.Skip(3);
  EXPECT_EQ(decoder.body_left(), 0U);
  EXPECT_EQ(next("\r\n1\r\nx"), std::pair(size_t{5}, false));
  EXPECT_EQ(next("x\r\n0\r\n"), std::pair(size_t{1}, true));
  EXPECT_EQ(next("\r\n0\r\nX: y\r\n\r\nGET"), std::pair(size_t{13}, false));
  EXPECT_TRUE(decoder.done());
}

TEST(BodyDecoder, AnErrorIsFinal) {
  for (const char* wire : {"g", "1\r\nxy", "0\r\nX\r", "0\r\n\rx"}) {
    BodyDecoder decoder({Framing::Kind::kChunked, 0});
    std::string bytes = wire;
    EXPECT_FALSE(decoder.Decode(bytes.data(), bytes.size())) << wire;
    EXPECT_FALSE(decoder.done()) << wire;
    EXPECT_FALSE(decoder.AcceptsClose()) << wire;
    bytes = "\r\n0\r\n\r\n";
    EXPECT_FALSE(decoder.Decode(bytes.data(), bytes.size())) << wire;
  }
}

TEST(BodyDecoder, RefusesTrailersThatBelongIntoTheHead) {
  for (const char* trailer : {"Host: a", "CONTENT-length: 1", "transfer-Encoding: chunked",
                              "connection: close", "Upgrade: x", "X", "X y: z", ": y"}) {
    const std::string wire = std::string("0\r\n") + trailer + "\r\n\r\n";
    size_t left = 0;
    EXPECT_EQ(DecodeIn(wire, wire.size(), {Framing::Kind::kChunked, 0}, &left), std::nullopt)
        << trailer;
  }
  size_t left = 1;
  EXPECT_EQ(DecodeIn("0\r\nHosts: a\r\nHos: a\r\n\r\n", 3, {Framing::Kind::kChunked, 0}, &left),
            "");
  EXPECT_EQ(left, 0U);
}

}  // namespace
}  // namespace atl::http
