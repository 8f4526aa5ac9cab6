#include "runtime/base/cpio.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/base/program.h"
#include "runtime/base/sys.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

class Cpio : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/cpio-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  // Unpacks with the real program, which warns of every byte that it does not understand.
  bool Unpack(const std::string& archive) {
    std::ofstream(directory_ / "archive", std::ios::binary) << archive;
    fs::create_directory(directory_ / "out");
    const auto said = sys::Open(directory_ / "said", O_WRONLY | O_CREAT, 0600);
    const auto cpio = Spawn({.path = "/usr/bin/cpio",
                             .argv = {"cpio", "-i", "-D", directory_ / "out", "-F",
                                      directory_ / "archive", "--no-absolute-filenames"},
                             .environment = {},
                             .descriptors = {{said->get(), 2}}});
    int status = -1;
    return cpio && ::waitpid(*cpio, &status, 0) == *cpio && status == 0;
  }
  std::string Text(const fs::path& path) const {
    std::ifstream file(directory_ / path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  mode_t Mode(const fs::path& path) const {
    struct stat info {};
    EXPECT_EQ(::stat((directory_ / path).c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }

  fs::path directory_;
};

TEST_F(Cpio, TheRealProgramUnpacksIt) {
  CpioWriter writer;
  writer.AddDirectory("modules");
  // Each length has another padding.
  for (size_t size = 0; size < 6; ++size) {
    writer.AddFile("modules/" + std::string(size + 1, 'm'), 0644, std::string(size, 'x'));
  }
  const std::string binary("a\0b\n\xff", 5);
  writer.AddFile("init", 0755, binary);
  ASSERT_TRUE(Unpack(writer.Finish())) << Text("said");
  for (size_t size = 0; size < 6; ++size) {
    EXPECT_EQ(Text("out/modules/" + std::string(size + 1, 'm')), std::string(size, 'x'));
  }
  EXPECT_EQ(Text("out/init"), binary);
  EXPECT_EQ(Mode("out/init"), 0755U);
  EXPECT_EQ(Mode("out/modules"), 0755U);
  EXPECT_EQ(Mode("out/modules/m"), 0644U);
  const std::string said = Text("said");
  EXPECT_EQ(said.find("cpio:"), std::string::npos) << said;
}

// The kernel goes on behind the end of an archive, at the next multiple of 4.
TEST_F(Cpio, AnArchiveEndsWhereAnotherCanBegin) {
  CpioWriter writer;
  writer.AddFile("a", 0644, "1");
  EXPECT_EQ(writer.Finish().size() % 4, 0U);
  writer.AddFile("b", 0644, "2");
  ASSERT_TRUE(Unpack(writer.Finish()));
  EXPECT_FALSE(fs::exists(directory_ / "out/a"));  // the writer is empty after Finish
  EXPECT_EQ(Text("out/b"), "2");
}

}  // namespace
}  // namespace atl
