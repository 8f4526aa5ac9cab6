#include "runtime/base/tree_removal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

class TreeRemovalTest : public ::testing::Test {
 protected:
  TreeRemovalTest() {
    std::string pattern = fs::temp_directory_path() / "removal.XXXXXX";
    top_ = ::mkdtemp(pattern.data());
    fd_ = *sys::Open(top_, O_RDONLY | O_DIRECTORY);
  }
  ~TreeRemovalTest() override { fs::remove_all(top_); }

  // Makes a/a/a/… through descriptors, because its path is longer than any call accepts.
  void MakeDeep(const std::string& name, int levels) {
    ASSERT_EQ(::mkdirat(fd_.get(), name.c_str(), 0700), 0);
    UniqueFd at = *sys::OpenAt(fd_.get(), name, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < levels; ++i) {
      ASSERT_EQ(::mkdirat(at.get(), "a", 0700), 0);
      sys::OpenAt(at.get(), "file", O_WRONLY | O_CREAT, 0600);
      at = *sys::OpenAt(at.get(), "a", O_RDONLY | O_DIRECTORY);
    }
  }

  std::string top_;
  UniqueFd fd_;
};

TEST_F(TreeRemovalTest, DeeperThanDescriptorsAndPathsReach) {
  MakeDeep("tree", 3000);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const Status removed = sys::RemoveTree(fd_.get(), "tree");
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(removed) << removed.error().message();
  EXPECT_TRUE(fs::is_empty(top_));
}

TEST_F(TreeRemovalTest, WhatSomebodyElseRemovesMeanwhile) {
  fs::create_directories(top_ + "/tree/inner/empty");
  TreeRemoval removal(fd_.get(), "tree");
  // One step: the removal has opened the directory and has not read it.
  ASSERT_FALSE(*removal.Continue(0));
  fs::remove_all(top_ + "/tree");
  const Result<bool> done = removal.Continue(INT64_MAX);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_TRUE(*done);
}

TEST_F(TreeRemovalTest, InPiecesUntilNothingIsLeft) {
  for (int i = 0; i < 20; ++i) {
    fs::create_directories(top_ + "/tree/" + std::to_string(i) + "/empty");
    std::ofstream(top_ + "/tree/" + std::to_string(i) + "/file") << "x";
  }
  TreeRemoval removal(fd_.get(), "tree");
  int pieces = 0;
  for (;;) {
    const auto done = removal.Continue(0);  // one entry at a time
    ASSERT_TRUE(done) << done.error().message();
    ++pieces;
    if (*done) break;
  }
  EXPECT_GE(pieces, 60);
  EXPECT_TRUE(fs::is_empty(top_));
}

// Directories that an interrupted removal has moved up belong to the tree. Nothing beside the tree
// is touched.
TEST_F(TreeRemovalTest, ResumesWhatAnotherLeft) {
  MakeDeep("tree", 500);
  MakeDeep("tree.0", 2);
  {
    TreeRemoval interrupted(fd_.get(), "tree");
    const auto moved = [&] {
      for (const auto& entry : fs::directory_iterator(top_ + "/tree")) {
        if (entry.path().filename().string().starts_with(".atoll-removal")) return true;
      }
      return false;
    };
    while (!moved()) ASSERT_TRUE(interrupted.Continue(0));
  }
  EXPECT_TRUE(sys::RemoveTree(fd_.get(), "tree"));
  EXPECT_FALSE(fs::exists(top_ + "/tree"));
  EXPECT_TRUE(fs::exists(top_ + "/tree.0/a/a"));
  TreeRemoval more(fd_.get(), "absent");
  more.Add("tree.0");
  more.Add("tree.9");
  const auto done = more.Continue(INT64_MAX);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_TRUE(*done);
  EXPECT_TRUE(fs::is_empty(top_));
}

TEST_F(TreeRemovalTest, LinksAreRemovedNotFollowed) {
  fs::create_directories(top_ + "/kept/inside");
  fs::create_directory(top_ + "/tree");
  fs::create_directory_symlink(top_ + "/kept", top_ + "/tree/link");
  fs::create_directory_symlink(top_ + "/kept", top_ + "/only");
  EXPECT_TRUE(sys::RemoveTree(fd_.get(), "tree"));
  EXPECT_TRUE(sys::RemoveTree(fd_.get(), "only"));
  EXPECT_TRUE(sys::RemoveTree(fd_.get(), "absent"));
  EXPECT_TRUE(fs::exists(top_ + "/kept/inside"));
  EXPECT_FALSE(fs::exists(top_ + "/tree"));
  EXPECT_FALSE(fs::is_symlink(top_ + "/only"));
}

}  // namespace
}  // namespace atl
