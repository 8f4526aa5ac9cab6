// A store of test layers in a directory that is compared before and after each test: the unpacker
// must write nothing beside the layer.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "images/report.h"
#include "runtime/base/sys.h"
#include "tests/priv/unpack_launcher.h"

namespace atl::images {

class UnpackFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(geteuid(), 0U) << "this test builds namespaces: run it as root";
    // The same place as ScratchDir's: a file system that stores whiteouts and user xattrs.
    const char* directory = getenv("TEST_TMPDIR");
    std::string pattern = std::string(directory ? directory : "/var/tmp") + "/atoll-unpack-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    ASSERT_EQ(mkdir((base_ + "/secret").c_str(), 0777), 0);
    Write(base_ + "/secret/file", "untouched");
    ASSERT_EQ(chmod((base_ + "/secret").c_str(), 0777), 0);
    ASSERT_EQ(chmod((base_ + "/secret/file").c_str(), 0666), 0);
  }
  void TearDown() override {
    EXPECT_EQ(Read(base_ + "/secret/file"), "untouched");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(base_ + "/secret"), {}), 1);
    for (const auto& entry : std::filesystem::directory_iterator(base_)) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(name == "secret" || name == "input" || expected_.contains(name)) << name;
    }
    // std::filesystem recurses and would overflow its stack on the deep trees of these tests.
    EXPECT_TRUE(sys::RemoveTree(AT_FDCWD, base_));
  }

  static void Write(const std::string& path, std::string_view bytes) {
    auto fd = sys::Open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ASSERT_TRUE(fd);
    ASSERT_TRUE(sys::WriteAll(fd->get(), bytes));
  }
  static std::string Read(const std::string& path) {
    return sys::ReadFileAt(AT_FDCWD, path, 1 << 20).value_or("<missing>");
  }
  std::string Path(const std::string& name) const { return base_ + "/" + name; }

  // Makes and opens an output directory for the unpacker. Its parent, base_, is closed to the
  // unpacker's user.
  UniqueFd MakeOutput(const std::string& name) {
    expected_.insert(name);
    EXPECT_EQ(mkdir(Path(name).c_str(), 0755), 0);
    EXPECT_EQ(chown(Path(name).c_str(), kLayerIdBase, kLayerIdBase), 0);
    auto fd = sys::Open(Path(name), O_RDONLY | O_DIRECTORY);
    EXPECT_TRUE(fd);
    return *std::move(fd);
  }

  UnpackOutcome Run(const std::string& mode, const std::string& archive, const std::string& output,
                    std::vector<std::string> limits = {}) {
    Write(Path("input"), archive);
    const UniqueFd directory = MakeOutput(output);
    auto input = sys::Open(Path("input"), O_RDONLY);
    EXPECT_TRUE(input);
    auto outcome = RunUnpack({.mode = mode,
                              .input = input->get(),
                              .output = directory.get(),
                              .limits = std::move(limits)});
    EXPECT_TRUE(outcome) << outcome.error().message();
    return outcome ? *outcome : UnpackOutcome{};
  }
  UnpackReport Extract(const std::string& archive, const std::string& output,
                       std::vector<std::string> limits = {}) {
    const UnpackOutcome outcome = Run("layer", archive, output, std::move(limits));
    EXPECT_EQ(outcome.wait_status, 0) << outcome.report;
    auto report = ParseUnpackReport(outcome.report);
    EXPECT_TRUE(report) << outcome.report;
    return report ? *report : UnpackReport{};
  }
  // Expects that the unpacker refuses the archive with a line that contains `why`.
  void Refuses(const std::string& mode, const std::string& archive, const std::string& why,
               Code code = Code::kInvalidArgument, std::vector<std::string> limits = {}) {
    const std::string output = "refused" + std::to_string(expected_.size());
    const UnpackOutcome outcome = Run(mode, archive, output, std::move(limits));
    EXPECT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 1)
        << outcome.wait_status << " " << outcome.report;
    EXPECT_NE(outcome.report.find(why), std::string::npos)
        << "wanted: " << why << "\ngot: " << outcome.report;
    EXPECT_EQ(DecodeUnpackError(Error(Code::kUnimplemented, outcome.report)).code(), code)
        << outcome.report;
    EXPECT_EQ(std::count(outcome.report.begin(), outcome.report.end(), '\n'), 1);
  }
  struct stat Stat(const std::string& name) const {
    struct stat st {};
    EXPECT_EQ(lstat(Path(name).c_str(), &st), 0) << name;
    return st;
  }
  bool Exists(const std::string& name) const {
    struct stat st {};
    return lstat(Path(name).c_str(), &st) == 0;
  }

  std::string base_;
  std::set<std::string> expected_;
};

}  // namespace atl::images
