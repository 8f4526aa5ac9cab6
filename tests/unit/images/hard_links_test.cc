#include "images/unpack/hard_links.h"

#include <gtest/gtest.h>

namespace atl::images::unpack {
namespace {

struct stat FileOf(ino_t inode, nlink_t names) {
  struct stat file {};
  file.st_ino = inode;
  file.st_nlink = names;
  return file;
}

TEST(HardLinks, RememberTheFirstName) {
  HardLinks links;
  EXPECT_EQ(*links.NameOf(FileOf(1, 3), "a"), "");
  EXPECT_EQ(*links.NameOf(FileOf(2, 2), "b"), "");
  EXPECT_EQ(*links.NameOf(FileOf(1, 3), "c"), "a");
  EXPECT_EQ(*links.NameOf(FileOf(1, 3), "d"), "a");
  EXPECT_EQ(*links.NameOf(FileOf(2, 2), "e"), "b");
  // All names of that inode have been seen, so this is another file.
  EXPECT_EQ(*links.NameOf(FileOf(1, 2), "f"), "");
  struct stat elsewhere = FileOf(1, 2);
  elsewhere.st_dev = 7;
  EXPECT_EQ(*links.NameOf(elsewhere, "g"), "");
}

TEST(HardLinks, HoldSoManyNamesAndNoMore) {
  HardLinks links;
  for (ino_t inode = 1; inode <= HardLinks::kMaxOpen; ++inode) {
    ASSERT_TRUE(links.NameOf(FileOf(inode, 2), "first"));
  }
  const auto refused = links.NameOf(FileOf(HardLinks::kMaxOpen + 1, 2), "more");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  // An inode whose names are complete makes room for another.
  EXPECT_EQ(*links.NameOf(FileOf(1, 2), "second"), "first");
  EXPECT_TRUE(links.NameOf(FileOf(HardLinks::kMaxOpen + 1, 2), "more"));
}

}  // namespace
}  // namespace atl::images::unpack
