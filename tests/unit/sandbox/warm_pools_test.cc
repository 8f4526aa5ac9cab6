// Pools among fakes: when members are built and removed, and which requests a claim makes.
#include "runtime/sandbox/stock/warm_pools.h"

#include "tests/unit/sandbox/lifecycle_fixture.h"

namespace atl::sandbox {
namespace {

class WarmPoolsTest : public LifecycleTest {
 protected:
  static PoolRecord Pool(uint32_t parked, uint32_t most = 10) {
    return {.name = "warm", .image = "busybox", .capacity = {parked, parked, 0, most}};
  }
  void Make(uint32_t parked, uint32_t most = 10) {
    ASSERT_TRUE(sandboxes->pools.Create(Pool(parked, most)));
    Fill();
  }
  // Answers builds until none is left.
  void Fill() {
    for (loop.Pass(50'000); !spawner.builds.empty(); loop.Pass(50'000)) {
      execds.push_back(spawner.AnswerBuild().control);
    }
  }
  uint32_t available() { return sandboxes->pools.Find("warm")->available; }
  static Wanted OfPool(const std::string& name = "warm") {
    Wanted wanted = Want();
    wanted.spec.image.clear();
    wanted.spec.extensions[kPoolRef] = name;
    return wanted;
  }
  std::vector<UniqueFd> execds;  // control sockets of parked sandboxes, execd's ends
};

TEST_F(WarmPoolsTest, AClaimAsksTheSpawnerForNothing) {
  Make(2);
  EXPECT_EQ(available(), 2U);
  const std::vector<std::string> parked = sandboxes->pools.Parked();
  const auto answer = Create(OfPool());
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(answer->result->id, parked.front());
  EXPECT_EQ(answer->result->state, State::kRunning);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(available(), 1U);
  // The member is replaced later.
  loop.Pass(1'000);
  EXPECT_TRUE(spawner.builds.empty());
  Fill();
  EXPECT_EQ(available(), 2U);
}

TEST_F(WarmPoolsTest, OneThatIsLowWaitsForLess) {
  Make(4);
  Create(OfPool());
  Create(OfPool());
  loop.Pass(5'000);
  EXPECT_TRUE(spawner.builds.empty());
  Create(OfPool());
  loop.Pass(5'000);
  EXPECT_EQ(spawner.builds.size(), 1U);
  Fill();
  EXPECT_EQ(available(), 4U);
}

// The number of members that the other pool may have does not matter.
TEST_F(WarmPoolsTest, TheLowOneIsFilledFirst) {
  Make(2);
  PoolRecord large = Pool(8);
  large.name = "large";
  ASSERT_TRUE(sandboxes->pools.Create(large));
  Fill();
  Create(OfPool());
  for (int i = 0; i < 5; ++i) Create(OfPool("large"));
  EXPECT_EQ(available(), 1U);
  loop.Pass(5'000);
  ASSERT_EQ(spawner.builds.size(), 1U);
  execds.push_back(spawner.AnswerBuild().control);
  EXPECT_EQ(sandboxes->pools.Find("large")->available, 4U);
}

// The cause of a lost member may also end the next, so the replacement waits.
TEST_F(WarmPoolsTest, WhatIsLostIsNotReplacedAtOnce) {
  Make(1);
  sandboxes->pools.Lost(sandboxes->pools.Parked().front());
  EXPECT_EQ(available(), 0U);
  sandboxes->pools.GiveWay();
  loop.Pass(900'000);
  EXPECT_TRUE(spawner.builds.empty());
  loop.Pass(200'000);
  EXPECT_EQ(spawner.builds.size(), 1U);
}

TEST_F(WarmPoolsTest, WhatHasEndedUnseenIsNotClaimed) {
  Make(2);
  const std::vector<std::string> parked = sandboxes->pools.Parked();
  execds.front().reset();
  const auto answer = Create(OfPool());
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(answer->result->id, parked.back());
  EXPECT_EQ(available(), 0U);
}

TEST_F(WarmPoolsTest, NothingIsBuiltWhileACreateIsAtWork) {
  Make(1);
  ASSERT_TRUE(sandboxes->pools.Resize("warm", {4, 4, 0, 10}));
  const auto answer = Create();
  // The build that was in flight, and the create.
  ASSERT_EQ(spawner.builds.size(), 2U);
  spawner.AnswerBuild();
  loop.Pass(100'000);
  ASSERT_EQ(spawner.builds.size(), 1U);
  spawner.AnswerBuild();
  EXPECT_TRUE(answer->called && answer->result);
  EXPECT_TRUE(spawner.builds.empty());
  Fill();
  EXPECT_EQ(available(), 4U);
}

TEST_F(WarmPoolsTest, WhatIsOtherwiseIsBuilt) {
  Make(1);
  Wanted wanted = OfPool();
  wanted.resource_limits["memory"] = "64Mi";
  const auto answer = Create(wanted);
  EXPECT_FALSE(answer->called);
  ASSERT_FALSE(spawner.builds.empty());
  spawner.AnswerBuild();
  EXPECT_TRUE(answer->called && answer->result);
  EXPECT_EQ(available(), 1U);
}

TEST_F(WarmPoolsTest, WhatIsOutOfDateIsBuiltAnew) {
  Make(1);
  const std::string old = sandboxes->pools.Parked().front();
  cgroup::Limits defaults = config.check.defaults;
  defaults.memory_bytes *= 2;
  sandboxes->check.SetDefaultLimits(defaults);
  const auto answer = Create(OfPool());
  EXPECT_FALSE(answer->called);
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_NE(answer->result->id, old);
  loop.Pass(3 * kSecond);
  ASSERT_FALSE(spawner.destroys.empty());
  EXPECT_EQ(spawner.destroys.front().what, old);
  Fill();
  EXPECT_EQ(available(), 1U);
  EXPECT_NE(sandboxes->pools.Parked().front(), old);
}

TEST_F(WarmPoolsTest, ADeletedSandboxCountsNoMore) {
  Make(1, 1);
  const auto answer = Create(OfPool());
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(sandboxes->pools.Remove("warm").error().code(), Code::kFailedPrecondition);
  const auto more = Create(OfPool());
  ASSERT_TRUE(more->called && !more->result);
  EXPECT_EQ(more->result.error().code(), Code::kResourceExhausted);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, answer->result->id));
  EXPECT_TRUE(sandboxes->pools.Remove("warm"));
}

TEST_F(WarmPoolsTest, OneThatCannotBeBuiltIsDestroyed) {
  ASSERT_TRUE(sandboxes->pools.Create(Pool(1)));
  loop.Pass(50'000);
  ASSERT_EQ(spawner.builds.size(), 1U);
  const std::string id = spawner.builds.front().id;
  const auto done = std::move(spawner.builds.front().done);
  spawner.builds.pop_front();
  done(Fail(Code::kInternal, "step overlay"));
  ASSERT_FALSE(spawner.destroys.empty());
  EXPECT_EQ(spawner.destroys.front().what, id);
  EXPECT_NE(sandboxes->pools.Find("warm")->trouble, "");
}

TEST_F(WarmPoolsTest, ItOutlivesTheDaemonAndItsMembersDoNot) {
  Make(2);
  wire::Greeting hello;
  const std::vector<uint32_t> slots = sandboxes->pools.Slots();
  for (const std::string& id : sandboxes->pools.Parked()) {
    wire::SandboxRecord& record = hello.sandboxes.emplace_back();
    record.id = id;
    record.slot = slots[hello.sandboxes.size() - 1];
  }
  Boot(hello);
  EXPECT_EQ(spawner.destroys.size(), 2U);
  ASSERT_TRUE(sandboxes->pools.Find("warm"));
  EXPECT_EQ(sandboxes->pools.Find("warm")->record.capacity, Pool(2).capacity);
  Fill();
  EXPECT_EQ(available(), 2U);
}

// Pools that are created automatically.
class AutomaticPoolsTest : public WarmPoolsTest {
 protected:
  AutomaticPoolsTest() {
    config.automatic_pools = 2;
    config.parked_sandboxes = 6;
    Boot({});
  }
  static Wanted Of(const std::string& image, const std::string& memory = "") {
    Wanted wanted = Want();
    wanted.spec.image = image;
    if (!memory.empty()) wanted.resource_limits["memory"] = memory;
    return wanted;
  }
  // Returns true if the create got a parked sandbox.
  bool Claims(const Wanted& wanted) {
    const std::vector<std::string> parked = sandboxes->pools.Parked();
    const auto answer = Create(wanted);
    while (!answer->called) execds.push_back(spawner.AnswerBuild().control);
    EXPECT_TRUE(answer->result);
    Fill();
    return std::count(parked.begin(), parked.end(), answer->result->id) == 1;
  }
  size_t parked() { return sandboxes->pools.Parked().size(); }
};

TEST_F(AutomaticPoolsTest, OneIsMadeByTheFirstCreate) {
  EXPECT_FALSE(Claims(Of("busybox")));
  EXPECT_EQ(parked(), 2U);
  EXPECT_TRUE(Claims(Of("busybox")));
  EXPECT_EQ(parked(), 2U);
  // Other limits need another pool.
  EXPECT_FALSE(Claims(Of("busybox", "64Mi")));
  EXPECT_TRUE(Claims(Of("busybox", "64Mi")));
  EXPECT_TRUE(sandboxes->pools.List().empty());
  for (const char* name : {"/busybox", "/docker.io/library/busybox:latest", "/busybox:latest"}) {
    EXPECT_FALSE(sandboxes->pools.Find(name));
    EXPECT_EQ(sandboxes->pools.RecordOf(name), nullptr);
    EXPECT_FALSE(sandboxes->pools.Remove(name));
  }
  EXPECT_EQ(sandboxes->pools.UserOf("busybox:latest"), nullptr);
}

TEST_F(AutomaticPoolsTest, WhatBelongsToTheBuildMakesNone) {
  Wanted wanted = Of("busybox");
  wanted.spec.readonly_root = true;
  EXPECT_FALSE(Claims(wanted));
  EXPECT_EQ(parked(), 0U);
}

TEST_F(AutomaticPoolsTest, TheLastUsedStay) {
  EXPECT_FALSE(Claims(Of("busybox", "64Mi")));
  EXPECT_FALSE(Claims(Of("busybox", "65Mi")));
  // Both pools were used a moment ago.
  EXPECT_FALSE(Claims(Of("busybox", "66Mi")));
  EXPECT_FALSE(Claims(Of("busybox", "66Mi")));
  loop.Pass(61 * kSecond);
  EXPECT_TRUE(Claims(Of("busybox", "65Mi")));
  EXPECT_FALSE(Claims(Of("busybox", "66Mi")));
  EXPECT_TRUE(Claims(Of("busybox", "66Mi")));
  EXPECT_TRUE(Claims(Of("busybox", "65Mi")));
  EXPECT_EQ(parked(), 4U);
  EXPECT_FALSE(Claims(Of("busybox", "64Mi")));
  // Nobody uses the pools for ten minutes.
  loop.Pass(601 * kSecond);
  sandboxes->pools.Look();
  EXPECT_EQ(parked(), 0U);
}

TEST_F(AutomaticPoolsTest, TheyMakeRoomForThoseWithAName) {
  EXPECT_FALSE(Claims(Of("busybox", "64Mi")));
  EXPECT_FALSE(Claims(Of("busybox", "65Mi")));
  EXPECT_EQ(parked(), 4U);
  Make(4);
  EXPECT_EQ(available(), 4U);
  EXPECT_EQ(parked(), 6U);
  EXPECT_FALSE(Claims(Of("busybox", "66Mi")));
  EXPECT_EQ(parked(), 6U);
}

}  // namespace
}  // namespace atl::sandbox
