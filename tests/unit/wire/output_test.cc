#include "runtime/wire/output.h"

#include <gtest/gtest.h>

#include "runtime/wire/bytes.h"

namespace atl::wire {
namespace {

OutputFrame Bytes(uint64_t offset, std::string bytes) {
  OutputFrame frame;
  frame.time_us = 1'700'000'000'000'001;
  frame.offset = offset;
  frame.bytes = std::move(bytes);
  return frame;
}

OutputFrame Lost(uint64_t offset, uint64_t lost) {
  OutputFrame frame;
  frame.kind = OutputFrame::Kind::kLost;
  frame.offset = offset;
  frame.lost = lost;
  return frame;
}

TEST(OutputFrame, SurvivesTheWay) {
  OutputFrame sent = Bytes(7, std::string("a\0b\n", 4));
  sent.kind = OutputFrame::Kind::kStderr;
  OutputFrames frames;
  frames.Append(sent.Encode() + Lost(11, 5).Encode());
  const auto first = frames.Next();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->kind, OutputFrame::Kind::kStderr);
  EXPECT_EQ((*first)->bytes, sent.bytes);
  EXPECT_EQ((*first)->time_us, sent.time_us);
  EXPECT_EQ((*first)->end(), 11U);
  const auto second = frames.Next();
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->end(), 16U);
  sent.kind = OutputFrame::Kind::kNote;
  frames.Append(sent.Encode());
  const auto third = frames.Next();
  ASSERT_TRUE(third && *third);
  EXPECT_EQ((*third)->kind, OutputFrame::Kind::kNote);
  EXPECT_EQ((*third)->bytes, sent.bytes);
  EXPECT_FALSE(*frames.Next());
  EXPECT_EQ(frames.pending(), 0U);
}

TEST(OutputFrames, TakesAnyPieces) {
  const std::string all =
      Bytes(0, std::string(kMaxOutputBytes, 'x')).Encode() + Bytes(kMaxOutputBytes, "y").Encode();
  for (const size_t piece : {1, 3, 4, 5, 1000, 20000}) {
    OutputFrames frames;
    size_t found = 0;
    for (size_t at = 0; at < all.size(); at += piece) {
      frames.Append(all.substr(at, piece));
      for (auto frame = frames.Next(); frame && *frame; frame = frames.Next()) ++found;
    }
    EXPECT_EQ(found, 2U) << piece;
    EXPECT_EQ(frames.pending(), 0U);
  }
}

TEST(OutputFrames, RefusesWhatIsNone) {
  const auto refused = [](const std::string& bytes) {
    OutputFrames frames;
    frames.Append(bytes);
    return !frames.Next();
  };
  EXPECT_TRUE(refused(Bytes(0, "").Encode()));
  EXPECT_TRUE(refused(Bytes(0, std::string(kMaxOutputBytes + 1, 'x')).Encode()));
  EXPECT_TRUE(refused(Bytes(~0ULL, "x").Encode()));
  EXPECT_TRUE(refused(Lost(0, 0).Encode()));
  EXPECT_TRUE(refused(Lost(0, ~0ULL).Encode()));
  std::string unknown = Bytes(0, "x").Encode();
  unknown[4] = 9;
  EXPECT_TRUE(refused(unknown));
  std::string longer = Bytes(0, "x").Encode();
  ++longer[0];
  longer.push_back('z');
  EXPECT_TRUE(refused(longer));
  // A size over the limit is refused at once, before the bytes arrive.
  Writer huge;
  huge.U32(kMaxOutputFrame + 1);
  EXPECT_TRUE(refused(huge.Take()));
}

}  // namespace
}  // namespace atl::wire
