#include "execd/line_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace atl::execd {
namespace {

std::vector<std::string> Split(std::string_view bytes, size_t step) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  for (size_t at = 0; at < bytes.size(); at += step) splitter.Feed(bytes.substr(at, step), keep);
  splitter.End(keep);
  return lines;
}

TEST(LineSplitter, SameLinesAtEveryCut) {
  const std::string_view bytes = "a\n\nb\r\nc\rd\n\re\r\r\n\r\nend";
  const std::vector<std::string> wanted = {"a", "\n", "b", "c", "d", "\n", "e", "\n", "\n", "end"};
  for (size_t step = 1; step <= bytes.size(); ++step) EXPECT_EQ(Split(bytes, step), wanted) << step;
}

TEST(LineSplitter, NothingFromNothing) {
  EXPECT_TRUE(Split("", 1).empty());
}

TEST(LineSplitter, LongLinesAreCutBetweenCharacters) {
  std::string text;
  while (text.size() < 3 * LineSplitter::kMaxLine) text += "x\xE2\x82\xAC";
  for (const size_t step : {size_t{7}, size_t{4096}, text.size()}) {
    std::string joined;
    for (const std::string& line : Split(text + "\n", step)) {
      EXPECT_LE(line.size(), LineSplitter::kMaxLine);
      if (line != "\n") joined += line;
      // No piece begins in the middle of a character.
      EXPECT_NE(static_cast<unsigned char>(line[0]) & 0xC0, 0x80);
    }
    EXPECT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace atl::execd
