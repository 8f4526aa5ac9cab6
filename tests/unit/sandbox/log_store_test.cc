#include "runtime/sandbox/output/log_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/sys.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

class LogStoreTest : public testing::Test {
 protected:
  LogStoreTest() {
    char name[] = "/tmp/log_store_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    store = std::move(*LogStore::Open(directory + "/logs", LogStore::kMinBytes));
  }
  ~LogStoreTest() override { std::filesystem::remove_all(directory); }

  std::string Path(const std::string& rest) const { return directory + "/logs/" + rest; }
  std::string Frame(size_t size) {
    wire::OutputFrame frame;
    frame.offset = offset;
    frame.time_us = static_cast<int64_t>(offset) + 1;
    frame.bytes.assign(size, 'x');
    offset += size;
    return frame.Encode();
  }
  static mode_t Mode(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  uint64_t End() const { return store->FindEnd(kId)->offset; }

  std::string directory;
  std::unique_ptr<LogStore> store;
  uint64_t offset = 0;
};

TEST_F(LogStoreTest, IsTheDaemonsAlone) {
  ASSERT_TRUE(store->Append(kId, Frame(10)));
  EXPECT_EQ(Mode(Path("")), 0700U);
  EXPECT_EQ(Mode(Path(kId)), 0700U);
  EXPECT_EQ(Mode(Path(kId) + "/log"), 0600U);
}

TEST_F(LogStoreTest, RotatesAndIsBounded) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store->Append(kId, Frame(10'000)));
    uint64_t size = 0;
    for (const auto& file : std::filesystem::directory_iterator(Path(kId)))
      size += file.file_size();
    ASSERT_LE(size, LogStore::kMinBytes);
    ASSERT_EQ(End(), offset);
    ASSERT_EQ(store->FindEnd(kId)->time_us, static_cast<int64_t>(offset - 10'000) + 1);
  }
  EXPECT_EQ(store->OpenFiles(kId).size(), 2U);
}

TEST_F(LogStoreTest, CutsOffWhatIsTorn) {
  ASSERT_TRUE(store->Append(kId, Frame(100)));
  const std::string torn = Frame(100);
  std::ofstream(Path(kId) + "/log", std::ios::app | std::ios::binary)
      << torn.substr(0, torn.size() - 1);
  EXPECT_EQ(End(), 100U);
  offset = 100;
  ASSERT_TRUE(store->Append(kId, Frame(7)));
  EXPECT_EQ(End(), 107U);
}

TEST_F(LogStoreTest, TakesNoNameButOurs) {
  const std::string frame = Frame(1);
  for (const char* bad : {"", "..", ".", "../x", "3F2504E0-4F89-41D3-9A0C-0305E82C3301",
                          "3f2504e0-4f89-41d3-9a0c-0305e82c3301/.."}) {
    EXPECT_FALSE(store->Append(bad, frame)) << bad;
    EXPECT_FALSE(store->FindEnd(bad)) << bad;
    EXPECT_FALSE(store->Remove(bad)) << bad;
    EXPECT_TRUE(store->OpenFiles(bad).empty()) << bad;
  }
  EXPECT_FALSE(store->Remove(std::string(kId) + ".removed-"));
  EXPECT_FALSE(store->Remove(std::string(kId) + ".removed-5x"));
}

TEST_F(LogStoreTest, FollowsNoLink) {
  std::filesystem::create_directory(directory + "/elsewhere");
  std::filesystem::create_directory_symlink(directory + "/elsewhere", Path(kId));
  EXPECT_FALSE(store->Append(kId, Frame(1)));
  EXPECT_TRUE(std::filesystem::is_empty(directory + "/elsewhere"));
}

TEST_F(LogStoreTest, ListsAndMeasuresItsLogs) {
  ASSERT_TRUE(store->Append(kId, Frame(5)));
  EXPECT_EQ(store->SizeOf(kId), std::filesystem::file_size(Path(kId) + "/log"));
  EXPECT_EQ(store->SizeOf("11111111-4f89-41d3-9a0c-0305e82c3301"), 0U);
  std::ofstream(Path("litter")) << "x";
  // The name that an older release gave to the log of a removed sandbox.
  std::filesystem::create_directory(Path(std::string(kId) + ".removed-5"));
  const auto found = store->List();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, std::vector<std::string>{kId});
  EXPECT_FALSE(std::filesystem::exists(Path("litter")));
  ASSERT_TRUE(store->Remove(kId));
  EXPECT_TRUE(store->List()->empty());
}

}  // namespace
}  // namespace atl::sandbox
