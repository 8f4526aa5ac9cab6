#include "netpolicy/splice/http_requests.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atl::netpolicy {
namespace {

// The parts of a stream that is read in pieces of `step` bytes: heads, and bodies joined together.
struct Seen {
  std::vector<std::string> heads;
  std::string bodies;
  std::string refusal;
  std::string rest;
};

Seen Read(const std::string& bytes, size_t step) {
  HttpRequests requests;
  Seen seen;
  std::string buffer;
  for (size_t at = 0; at < bytes.size(); at += step) {
    buffer += bytes.substr(at, step);
    while (true) {
      const auto piece = requests.Take(buffer);
      if (piece.kind == HttpRequests::Kind::kMore) break;
      if (piece.kind == HttpRequests::Kind::kRefused) {
        seen.refusal = piece.reason;
        const auto next = requests.Take("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        EXPECT_EQ(next.kind, HttpRequests::Kind::kRefused) << "stays refused";
        return seen;
      }
      EXPECT_GT(piece.size, 0U);
      if (piece.kind == HttpRequests::Kind::kHead)
        seen.heads.push_back(buffer.substr(0, piece.size));
      if (piece.kind == HttpRequests::Kind::kBody) seen.bodies += buffer.substr(0, piece.size);
      buffer.erase(0, piece.size);
    }
  }
  seen.rest = buffer;
  return seen;
}

const std::string kGet = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const std::string kPost = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 40\r\n\r\n";
const std::string kChunked =
    "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
const std::string kSmuggled = "GET /s HTTP/1.1\r\nHost: b.example\r\n\r\n....";  // 40 bytes

TEST(HttpRequests, TellsHeadsFromBodies) {
  ASSERT_EQ(kSmuggled.size(), 40U);
  const std::string chunks = "28;x=\"y\"\r\n" + kSmuggled + "\r\n1\r\n.\r\n0\r\nX: y\r\n\r\n";
  const std::string stream = kGet + kPost + kSmuggled + kChunked + chunks + kGet;
  for (const size_t step : {1U, 2U, 5U, 17U, 1000U}) {
    const Seen seen = Read(stream, step);
    EXPECT_EQ(seen.refusal, "");
    EXPECT_EQ(seen.heads, (std::vector<std::string>{kGet, kPost, kChunked, kGet})) << step;
    EXPECT_EQ(seen.bodies, kSmuggled + chunks);
    EXPECT_EQ(seen.rest, "");
  }
}

TEST(HttpRequests, BodiesMayPassElsewhere) {
  HttpRequests requests;
  EXPECT_EQ(requests.body_left(), 0U);
  EXPECT_EQ(requests.Take(kPost).kind, HttpRequests::Kind::kHead);
  EXPECT_EQ(requests.body_left(), 40U);
  EXPECT_EQ(requests.Take("12345").size, 5U);
  EXPECT_EQ(requests.body_left(), 35U);
  requests.Skip(35);
  EXPECT_EQ(requests.body_left(), 0U);
  EXPECT_EQ(requests.Take(kChunked).kind, HttpRequests::Kind::kHead);
  EXPECT_EQ(requests.body_left(), 0U) << "the size of the chunk comes first";
  EXPECT_EQ(requests.Take("fff\r\n").size, 5U);
  EXPECT_EQ(requests.body_left(), 4095U);
  requests.Skip(4095);
  EXPECT_EQ(requests.Take("\r\n").size, 2U);
  EXPECT_EQ(requests.Take("0\r\n").size, 3U);
  EXPECT_EQ(requests.Take("\r\n").size, 2U);
  EXPECT_EQ(requests.Take(kGet).kind, HttpRequests::Kind::kHead);
}

TEST(HttpRequests, RefusesBareLineFeedsAtOnce) {
  EXPECT_NE(Read("GET / HTTP/1.1\n", 1).refusal, "");
  EXPECT_NE(Read("GET / HTTP/1.1\r\nHost: a.example\n", 1).refusal, "");
  EXPECT_NE(Read("\r\n" + kGet, 1).refusal, "") << "an empty line in front";
}

TEST(HttpRequests, RefusesMalformedChunks) {
  for (const char* chunk : {"\r\n",
                            "x\r\n",
                            " 5\r\n",
                            "5 \r\n",
                            "5 ;x\r\n",
                            "0x5\r\n",
                            "-5\r\n",
                            "+5\r\n",
                            "5\n",
                            "5;a\rb\r\n",
                            "5;a\x01\r\n",
                            "1000000000000000\r\n",
                            "5\r\nabcdefg",
                            "5\r\nabcde\n",
                            "5\r\nabcde\r\r",
                            "0\r\nX\r\n",
                            "0\r\nX: y\n",
                            "0\r\nHost: b.example\r\n",
                            "0\r\nContent-Length: 5\r\n",
                            "0\r\nTRANSFER-encoding: chunked\r\n",
                            "0\r\n folded\r\n"}) {
    EXPECT_NE(Read(kChunked + chunk, 1).refusal, "") << chunk;
    EXPECT_NE(Read(kChunked + chunk, 1000).refusal, "") << chunk;
  }
}

TEST(HttpRequests, LimitsWhatIsSeenWhole) {
  const std::string long_head = "GET / HTTP/1.1\r\nHost: a.example\r\nX: ";
  EXPECT_NE(Read(long_head + std::string(kMaxHttpHead, 'x'), 4096).refusal, "");
  EXPECT_NE(Read(kChunked + "5;" + std::string(2000, 'x'), 4096).refusal, "");
  std::string trailers = "0\r\n";
  for (int i = 0; i < 2000; ++i) trailers += "X-Y: 0123\r\n";
  EXPECT_NE(Read(kChunked + trailers, 1000).refusal, "");
  const std::string fits =
      long_head + std::string(kMaxHttpHead - long_head.size() - 4, 'x') + "\r\n\r\n";
  EXPECT_EQ(Read(fits, 1000).heads.size(), 1U);
  const std::string longer = long_head + "x" + fits.substr(long_head.size());
  EXPECT_NE(Read(longer, longer.size()).refusal, "") << "also if it came whole";
}

TEST(UpgradeAnswer, SeesTheStatus) {
  using State = UpgradeAnswer::State;
  const auto feed = [](const std::string& bytes, size_t step) {
    UpgradeAnswer answer;
    for (size_t at = 0; at < bytes.size(); at += step) {
      const State state = answer.Feed(bytes.substr(at, step));
      if (state != State::kMore) return state;
    }
    return State::kMore;
  };
  const std::string switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
  const std::string interim = "HTTP/1.1 103 Early Hints\r\nLink: </x>; HTTP/1.1 101\r\n\r\n";
  for (const size_t step : {1U, 3U, 1000U}) {
    EXPECT_EQ(feed(switched, step), State::kSwitched);
    EXPECT_EQ(feed(interim + interim + switched, step), State::kSwitched);
    EXPECT_EQ(feed("HTTP/1.1 200 OK\r\n", step), State::kRefused);
    EXPECT_EQ(feed(interim + "HTTP/1.1 403 No\r\n", step), State::kRefused);
    EXPECT_EQ(feed("HTTP/1.1 101", step), State::kMore);
    EXPECT_EQ(feed(interim, step), State::kMore);
    EXPECT_EQ(feed("HTTP/1.1 1o1 x\r\n", step), State::kBroken);
    EXPECT_EQ(feed("SSH-2.0-OpenSSH\r\n", step), State::kBroken);
    EXPECT_EQ(feed("HTTP/1.1 101 x\n", step), State::kBroken);
    EXPECT_EQ(feed("HTTP/1.1 099 x\r\n", step), State::kBroken);
    EXPECT_EQ(feed(std::string(kMaxHttpHead + 1, 'x'), step), State::kBroken);
  }
}

}  // namespace
}  // namespace atl::netpolicy
