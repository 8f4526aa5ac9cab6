#include "runtime/base/sys.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace atl {
namespace {

namespace fs = std::filesystem;

TEST(ListSubdirectoriesTest, TellsNeitherFilesNorLinks) {
  std::string pattern = fs::temp_directory_path() / "subdirectories.XXXXXX";
  const fs::path top = ::mkdtemp(pattern.data());
  fs::create_directories(top / "one/below");
  fs::create_directory(top / "two");
  std::ofstream(top / "file") << "text";
  fs::create_directory_symlink("one", top / "link");
  auto names = sys::ListSubdirectories(sys::Open(top, O_RDONLY | O_DIRECTORY)->get());
  ASSERT_TRUE(names);
  std::sort(names->begin(), names->end());
  EXPECT_EQ(*names, (std::vector<std::string>{"one", "two"}));
  fs::remove_all(top);
}

}  // namespace
}  // namespace atl
