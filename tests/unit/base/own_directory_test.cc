#include "runtime/base/own_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "runtime/base/sys.h"

namespace atl {
namespace {

class OwnDirectoryTest : public testing::Test {
 protected:
  OwnDirectoryTest() {
    std::string name = testing::TempDir() + "/own-XXXXXX";
    top = ::mkdtemp(name.data());
    parent = *sys::Open(top, O_RDONLY | O_DIRECTORY);
  }
  ~OwnDirectoryTest() override { std::filesystem::remove_all(top); }
  static struct stat StatOf(int fd) {
    struct stat info {};
    EXPECT_EQ(::fstat(fd, &info), 0);
    return info;
  }

  std::string top;
  UniqueFd parent;
};

TEST_F(OwnDirectoryTest, IsMadeAndOpened) {
  const auto made = MakeOwnDirectory(parent.get(), "new", 0750);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(StatOf(made->get()).st_mode, static_cast<mode_t>(S_IFDIR | 0750));
  EXPECT_EQ(StatOf(made->get()).st_uid, ::geteuid());
  EXPECT_EQ(::fchmod(made->get(), 0700), 0);
  struct stat info;
  ASSERT_EQ(::fstatat(parent.get(), "new", &info, AT_SYMLINK_NOFOLLOW), 0);
  EXPECT_EQ(info.st_ino, StatOf(made->get()).st_ino);
  EXPECT_EQ(MakeOwnDirectory(parent.get(), "new", 0750).error().error_number(), EEXIST);
}

TEST_F(OwnDirectoryTest, InADirectoryThatPassesItsGroupOn) {
  ASSERT_EQ(::fchmod(parent.get(), 02755), 0);
  EXPECT_TRUE(MakeOwnDirectory(parent.get(), "new", 0750));
}

TEST_F(OwnDirectoryTest, WhatCameIntoItsPlaceIsLeftAlone) {
  for (const mode_t mode : {0700, 0755, 0777, 01000, 04000, 0001}) {
    ASSERT_EQ(::mkdirat(parent.get(), "theirs", 0), 0);
    ASSERT_EQ(::fchmodat(parent.get(), "theirs", mode, 0), 0);
    const auto opened = OpenMadeDirectory(parent.get(), "theirs", 0750);
    ASSERT_FALSE(opened) << mode;
    EXPECT_EQ(opened.error().code(), Code::kFailedPrecondition);
    struct stat info;
    ASSERT_EQ(::fstatat(parent.get(), "theirs", &info, AT_SYMLINK_NOFOLLOW), 0);
    EXPECT_EQ(info.st_mode, S_IFDIR | mode);
    ASSERT_EQ(::unlinkat(parent.get(), "theirs", AT_REMOVEDIR), 0);
  }
  ASSERT_EQ(::mkdirat(parent.get(), "made", 0), 0);
  ASSERT_EQ(::symlinkat("made", parent.get(), "link"), 0);
  EXPECT_FALSE(OpenMadeDirectory(parent.get(), "link", 0750));
  EXPECT_TRUE(OpenMadeDirectory(parent.get(), "made", 0750));
}

}  // namespace
}  // namespace atl
