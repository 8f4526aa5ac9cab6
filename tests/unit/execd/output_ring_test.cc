#include "execd/run/output_ring.h"

#include <gtest/gtest.h>

namespace atl::execd {
namespace {

TEST(OutputRing, KeepsTheLastBytesWithTheirOffsets) {
  for (const size_t step : {1, 3, 7, 10, 25}) {
    OutputRing ring(10);
    std::string all;
    for (int i = 0; i < 40; ++i) {
      const std::string piece(step, static_cast<char>('a' + i % 26));
      all += piece;
      ring.Append(piece);
      const std::string wanted = all.size() > 10 ? all.substr(all.size() - 10) : all;
      EXPECT_EQ(ring.From(0), wanted);
      EXPECT_EQ(ring.end(), all.size());
      EXPECT_EQ(ring.begin(), all.size() - wanted.size());
      EXPECT_EQ(ring.From(all.size() - 1), all.substr(all.size() - 1));
      EXPECT_EQ(ring.From(all.size()), "");
      EXPECT_EQ(ring.From(all.size() + 9), "");
      for (size_t from = 0; from < wanted.size(); ++from) {
        for (size_t size = 0; from + size <= wanted.size(); ++size) {
          EXPECT_EQ(ring.Read(ring.begin() + from, size), wanted.substr(from, size));
        }
      }
    }
  }
}

}  // namespace
}  // namespace atl::execd
