#include "execd/run/timed_output.h"

#include <gtest/gtest.h>

namespace atl::execd {
namespace {

constexpr OutputStream kOut = OutputStream::kStdout;
constexpr OutputStream kErr = OutputStream::kStderr;

TEST(TimedOutput, KeepsStreamsAndMomentsApart) {
  TimedOutput output(100);
  output.Append(kOut, 1'000'000, "ab");
  output.Append(kOut, 1'000'999, "c");  // the same moment
  output.Append(kErr, 1'000'999, "de");
  output.Append(kErr, 1'002'000, "f");
  EXPECT_EQ(output.begin(), 0U);
  EXPECT_EQ(output.end(), 6U);
  TimedOutput::Piece piece = output.Read(0, 100);
  EXPECT_EQ(piece.bytes, "abc");
  EXPECT_EQ(piece.stream, kOut);
  EXPECT_EQ(piece.time_us, 1'000'000);
  piece = output.Read(3, 100);
  EXPECT_EQ(piece.bytes, "de");
  EXPECT_EQ(piece.stream, kErr);
  EXPECT_EQ(output.Read(4, 100).bytes, "e");
  EXPECT_EQ(output.Read(0, 2).bytes, "ab");
  EXPECT_EQ(output.Read(5, 100).time_us, 1'002'000);
  EXPECT_EQ(output.All(), "abcdef");
}

TEST(TimedOutput, ReadsTheSameAsWasWrittenWhileTheOldestGoes) {
  TimedOutput output(64);
  std::string all;
  for (int i = 0; i < 500; ++i) {
    const std::string bytes(static_cast<size_t>(i % 19) + 1, static_cast<char>('a' + i % 26));
    output.Append(i % 3 == 0 ? kErr : kOut, i * 700, bytes);
    all += bytes;
    ASSERT_EQ(output.end(), all.size());
    ASSERT_LE(output.end() - output.begin(), 64U);
    std::string read;
    for (uint64_t at = output.begin(); at < output.end(); at = output.begin() + read.size()) {
      const auto piece = output.Read(at, 5);
      ASSERT_FALSE(piece.bytes.empty());
      read += piece.bytes;
    }
    ASSERT_EQ(read, all.substr(output.begin())) << i;
  }
}

TEST(TimedOutput, ManyMomentsAreBounded) {
  TimedOutput output(64 << 10);
  for (int i = 0; i < 5000; ++i) output.Append(kOut, i * 10'000, "x");
  EXPECT_EQ(output.end(), 5000U);
  EXPECT_EQ(output.end() - output.begin(), 2048U);
  EXPECT_EQ(output.Read(output.begin(), 10).time_us, int64_t{5000 - 2048} * 10'000);
  EXPECT_EQ(output.All().size(), 2048U);
}

}  // namespace
}  // namespace atl::execd
