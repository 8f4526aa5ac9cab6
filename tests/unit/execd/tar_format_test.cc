#include "execd/files/tar_format.h"

#include <gtest/gtest.h>

#include <vector>

namespace atl::execd {
namespace {

struct Entries : TarReader::Sink {
  Status OnEntry(const TarEntry& entry) override {
    all.push_back(entry);
    data.emplace_back();
    return {};
  }
  Status OnData(std::string_view bytes) override {
    data.back().append(bytes);
    return {};
  }
  Status OnEntryEnd() override {
    ++ended;
    return {};
  }
  std::vector<TarEntry> all;
  std::vector<std::string> data;
  int ended = 0;
};

TEST(Tar, RoundTripAtEveryCut) {
  TarEntry small, large, link;
  small.name = "dir/a";
  small.mode = 0751;
  small.uid = 3000000;  // more than seven octal digits
  small.size = 5;
  small.mtime = 1234567890;
  large.name = std::string(300, 'n') + "/\xC3\xA9";
  large.size = 1000;
  link.type = '2';
  link.name = "l";
  link.link = std::string(200, 't');
  std::string archive;
  AppendTarHeader(&archive, small);
  archive += "hello" + std::string(507, '\0');
  AppendTarHeader(&archive, large);
  archive += std::string(1000, 'x') + std::string(24, '\0');
  AppendTarHeader(&archive, link);
  archive += std::string(1024, '\0');
  for (const size_t step : {size_t{1}, size_t{511}, size_t{513}, archive.size()}) {
    Entries entries;
    TarReader reader(&entries);
    for (size_t at = 0; at < archive.size(); at += step) {
      ASSERT_TRUE(reader.Feed(std::string_view(archive).substr(at, step)));
    }
    EXPECT_TRUE(reader.complete());
    ASSERT_EQ(entries.all.size(), 3U);
    EXPECT_EQ(entries.all[0].name, "dir/a");
    EXPECT_EQ(entries.all[0].mode, 0751U);
    EXPECT_EQ(entries.all[0].mtime, 1234567890);
    EXPECT_EQ(entries.data[0], "hello");
    EXPECT_EQ(entries.all[1].name, large.name);
    EXPECT_EQ(entries.data[1], std::string(1000, 'x'));
    EXPECT_EQ(entries.all[2].link, link.link);
    EXPECT_EQ(entries.ended, 2);
  }
}

TEST(Tar, CutOffIsNotComplete) {
  TarEntry entry;
  entry.name = "a";
  entry.size = 600;
  std::string archive;
  AppendTarHeader(&archive, entry);
  archive += std::string(300, 'x');
  for (const size_t size : {size_t{100}, size_t{512}, size_t{812}}) {
    Entries entries;
    TarReader reader(&entries);
    ASSERT_TRUE(reader.Feed(std::string_view(archive).substr(0, size)));
    EXPECT_FALSE(reader.complete()) << size;
  }
}

TEST(Tar, ChecksumIsChecked) {
  TarEntry entry;
  entry.name = "a";
  std::string archive;
  AppendTarHeader(&archive, entry);
  archive[0] = 'b';
  Entries entries;
  EXPECT_FALSE(TarReader(&entries).Feed(archive));
}

}  // namespace
}  // namespace atl::execd
