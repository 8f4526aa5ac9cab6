#include "runtime/sandbox/host_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

TEST(HostWatch, AsksForQuotasOnceAMinute) {
  FakeClock clock;
  FakeLoop loop{clock};
  FakeSpawner spawner{loop};
  Registry registry("/nonexistent", 0);
  GroupCounts counts(registry);
  HostWatch watch(loop, clock, spawner, counts, {"/nonexistent", "/nonexistent"},
                  [](uint32_t) { return cgroup::GroupEvents(); });
  const auto refresh = [&] {
    watch.Refresh();
    loop.Run();
  };
  refresh();
  EXPECT_EQ(watch.quotas(), nullptr);
  ASSERT_EQ(spawner.measures.size(), 1U);
  spawner.measures.front()(
      wire::Disks{.disks = {{1, 4096}, {7, 8192}}, .counted = true, .volume_bytes = 512});
  ASSERT_NE(watch.quotas(), nullptr);
  EXPECT_EQ(watch.quotas()->upper_bytes, 4096U + 8192U);
  EXPECT_EQ(watch.quotas()->volume_bytes, 512U);
  refresh();
  EXPECT_EQ(spawner.measures.size(), 1U);
  clock.Advance(60'000'000);
  refresh();
  ASSERT_EQ(spawner.measures.size(), 2U);
  spawner.measures.back()(Fail(Code::kUnavailable, "no spawner"));
  EXPECT_NE(watch.quotas(), nullptr) << "the last sample stays";
  clock.Advance(60'000'000);
  refresh();
  // Another spawner has another store.
  spawner.measures.back()(wire::Disks());
  EXPECT_EQ(watch.quotas(), nullptr);
}

}  // namespace
}  // namespace atl::sandbox
