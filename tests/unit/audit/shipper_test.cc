#include "runtime/tenants/sinks/shipper.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/tenants/audit/log_files.h"

namespace atl::sinks {
namespace {

// Counts the lines that it takes.
struct Taken {
  std::mutex mutex;
  std::condition_variable more;
  size_t lines = 0;
};

class CountingSink : public Sink {
 public:
  explicit CountingSink(Taken& taken) : taken_(taken) {}
  Status Send(const Batch& batch) override {
    const std::lock_guard lock(taken_.mutex);
    taken_.lines += batch.size();
    taken_.more.notify_all();
    return {};
  }

 private:
  Taken& taken_;
};

TEST(ShipperTest, LinesLeaveThoughTheCursorCannotBeWritten) {
  char name[] = "/tmp/atoll-shipper-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::string directory = name;
  Taken taken;
  {
    auto shipper =
        Shipper::Start(directory, "far", std::make_unique<CountingSink>(taken), [](uint64_t) {});
    ASSERT_TRUE(shipper) << shipper.error().message();
    // No file can take the place of a directory that is not empty.
    ASSERT_EQ(::mkdir((directory + "/far.cursor").c_str(), 0700), 0);
    ASSERT_EQ(::mkdir((directory + "/far.cursor/full").c_str(), 0700), 0);
    constexpr size_t kBatches = 8, kLines = kBatches * 500;
    {
      std::ofstream file(directory + "/" + audit::LogFile{.index = 1}.Name());
      for (size_t i = 0; i < kLines; ++i) file << "{\"seq\":" << i + 1 << "}\n";
    }
    std::unique_lock lock(taken.mutex);
    EXPECT_TRUE(taken.more.wait_for(lock, std::chrono::seconds(60), [&] {
      return taken.lines >= kLines;
    })) << taken.lines;
    EXPECT_EQ((*shipper)->failing_since_us(), 0) << "the sink has taken everything";
  }
  ASSERT_TRUE(sys::RemoveTree(AT_FDCWD, directory));
}

}  // namespace
}  // namespace atl::sinks
