// Pools among fakes: when members are built and removed, and which requests a claim makes.
#include "runtime/sandbox/stock/warm_pools.h"

#include <sys/socket.h>

#include "runtime/wire/plan.h"
#include "runtime/wire/start.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class WarmPoolsTest : public SandboxesTest {
 protected:
  static PoolRecord Pool(uint32_t parked, uint32_t most = 10) {
    return {.key = "warm", .image = "busybox", .capacity = {parked, parked, 0, most}};
  }
  void Make(uint32_t parked, uint32_t most = 10) {
    ASSERT_TRUE(sandboxes->pools.Create(kCaller, Pool(parked, most)));
    Fill();
  }
  // Answers builds until none is left.
  void Fill() {
    for (loop.Pass(50'000); !spawner.builds.empty(); loop.Pass(50'000)) {
      execds.push_back(spawner.AnswerBuild().control);
    }
  }
  uint32_t available() { return sandboxes->pools.Find(kCaller, "warm")->available; }
  static Wanted OfPool(const std::string& name = "warm") {
    Wanted wanted = Want();
    wanted.spec.image.clear();
    wanted.spec.extensions[kPoolRef] = name;
    return wanted;
  }
  static Wanted WithLimits() {
    Wanted wanted = OfPool();
    wanted.resource_limits = {{"memory", "2Gi"}, {"cpu", "1.5"}};
    return wanted;
  }
  uint64_t Cold(ColdReason reason, const std::string& name = "warm") {
    return sandboxes->pools.Find(kCaller, name)->creates.cold[static_cast<size_t>(reason)];
  }
  // Returns the id in the start message that execd has got; "": it has got none.
  static std::string Started(const UniqueFd& control) {
    char bytes[65536];
    const ssize_t size = ::recv(control.get(), bytes, sizeof bytes, MSG_DONTWAIT | MSG_PEEK);
    if (size < 4) return "";
    const auto message =
        wire::DecodeStartMessage(std::string_view(bytes, static_cast<size_t>(size)).substr(4));
    return message ? message->sandbox_id : "not readable";
  }
  // Checks that the budget has exactly the limits of all sandboxes that clients see or wait for,
  // and the stock those of all members.
  void ExpectHeldOnce() {
    Held clients;
    for (const auto& [id, sandbox] : sandboxes->registry) {
      if (Holds(sandbox.state)) clients.Add(sandbox.spec);
    }
    const Held& held = sandboxes->room.held();
    EXPECT_EQ(held.sandboxes, clients.sandboxes);
    EXPECT_EQ(held.memory_bytes, clients.memory_bytes);
    EXPECT_EQ(held.pids, clients.pids);
    EXPECT_EQ(sandboxes->pools.stock().sandboxes, sandboxes->pools.Slots().size());
    EXPECT_EQ(sandboxes->pools.stock().memory_bytes,
              sandboxes->pools.Slots().size() * config.check.defaults.memory_bytes);
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
  large.key = "large";
  ASSERT_TRUE(sandboxes->pools.Create(kCaller, large));
  Fill();
  Create(OfPool());
  for (int i = 0; i < 5; ++i) Create(OfPool("large"));
  EXPECT_EQ(available(), 1U);
  loop.Pass(5'000);
  ASSERT_EQ(spawner.builds.size(), 1U);
  execds.push_back(spawner.AnswerBuild().control);
  EXPECT_EQ(sandboxes->pools.Find(kCaller, "large")->available, 4U);
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
  ASSERT_TRUE(sandboxes->pools.Resize(kCaller, "warm", {4, 4, 0, 10}));
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
  wanted.spec.readonly_root = true;
  const auto answer = Create(wanted);
  EXPECT_FALSE(answer->called);
  ASSERT_FALSE(spawner.builds.empty());
  spawner.AnswerBuild();
  EXPECT_TRUE(answer->called && answer->result);
  EXPECT_EQ(available(), 1U);
  EXPECT_EQ(Cold(ColdReason::kReadOnlyRoot), 1U);
}

// A claim changes the limits of a member, but neither its devices nor its tier.
TEST_F(WarmPoolsTest, GpusAndOtherTiersAreBuilt) {
  config.check.devices = {{"0", {}}};
  config.check.tiers = {"namespace", "gvisor"};
  Boot({});
  Make(1);
  Wanted wanted = WithLimits();
  wanted.resource_limits["gpu"] = "1";
  auto answer = Create(wanted);
  ASSERT_TRUE(spawner.limits.empty());
  while (!answer->called) execds.push_back(spawner.AnswerBuild().control);
  ASSERT_TRUE(answer->result);
  EXPECT_EQ(answer->result->devices, std::vector<std::string>{"0"});
  EXPECT_EQ(Cold(ColdReason::kGpus), 1U);
  wanted = WithLimits();
  wanted.isolation = "gvisor";
  answer = Create(wanted);
  ASSERT_TRUE(spawner.limits.empty());
  while (!answer->called) execds.push_back(spawner.AnswerBuild().control);
  ASSERT_TRUE(answer->result);
  EXPECT_EQ(TierOf(answer->result->spec), "gvisor");
  EXPECT_EQ(Cold(ColdReason::kTier), 1U);
  EXPECT_EQ(available(), 1U);
}

// The limits are set before the start message is sent, and counted once.
TEST_F(WarmPoolsTest, AClaimSetsTheLimits) {
  Make(1);
  const std::string id = sandboxes->pools.Parked().front();
  const auto answer = Create(WithLimits());
  EXPECT_FALSE(answer->called);
  EXPECT_TRUE(spawner.builds.empty());
  ASSERT_EQ(spawner.limits.size(), 1U);
  EXPECT_EQ(Started(execds.front()), "");
  ExpectHeldOnce();
  const wire::ChangeLimits asked = spawner.AnswerLimits();
  EXPECT_EQ(asked.id, id);
  EXPECT_EQ(asked.limits.memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(asked.limits.cpu_millis, 1500U);
  EXPECT_EQ(asked.limits.pids, config.check.defaults.pids);
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(answer->result->id, id);
  EXPECT_EQ(answer->result->spec.limits, asked.limits);
  EXPECT_EQ(Started(execds.front()), id);
  EXPECT_EQ(sandboxes->pools.Find(kCaller, "warm")->creates.claimed, 1U);
  ExpectHeldOnce();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  spawner.AnswerDestroy();
  ExpectHeldOnce();
}

// The member has some of the limits, so it goes. The create has the id of the member, so it waits
// until the member is gone.
TEST_F(WarmPoolsTest, OneThatCannotTakeTheLimitsIsReplacedByABuild) {
  Make(1);
  const std::string id = sandboxes->pools.Parked().front();
  const uint32_t slot = sandboxes->pools.Slots().front();
  const auto answer = Create(WithLimits());
  spawner.AnswerLimits(Fail(Code::kFailedPrecondition, "the present limits are unknown"));
  EXPECT_FALSE(answer->called);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(Started(execds.front()), "");
  ExpectHeldOnce();
  ASSERT_EQ(spawner.destroys.size(), 1U);
  // Its exit arrives first, and is not that of the sandbox that will be built.
  Ended(id, Exit(137));
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds.front().id, id);
  EXPECT_EQ(spawner.builds.front().plan->limits.memory_bytes, uint64_t{2} << 30);
  ExpectHeldOnce();
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(answer->result->state, State::kRunning);
  EXPECT_EQ(Cold(ColdReason::kLimits), 1U);
  EXPECT_EQ(sandboxes->pools.Find(kCaller, "warm")->creates.claimed, 0U);
  EXPECT_EQ(sandboxes->creates.stats().origins[static_cast<size_t>(Origin::kCold)].ok, 1U);
  EXPECT_TRUE(network.attached.contains(slot) || !network.detached.empty());
  ExpectHeldOnce();
}

TEST_F(WarmPoolsTest, ASpawnerThatIsGoneFailsTheClaim) {
  Make(1);
  const std::string id = sandboxes->pools.Parked().front();
  const auto answer = Create(WithLimits());
  spawner.AnswerLimits(Fail(Code::kUnavailable, "the spawner is gone"));
  ASSERT_TRUE(answer->called && !answer->result);
  EXPECT_EQ(answer->result.error().code(), Code::kUnavailable);
  EXPECT_TRUE(Stored().empty());
  ASSERT_EQ(spawner.destroys.size(), 1U);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(sandboxes->registry.Look(id), nullptr);
  ExpectHeldOnce();
}

TEST_F(WarmPoolsTest, AMemberThatCannotBeDestroyedFailsTheCreate) {
  Make(1);
  const std::string id = sandboxes->pools.Parked().front();
  const auto answer = Create(WithLimits());
  spawner.AnswerLimits(Fail(Code::kInternal, "memory.max: EBUSY"));
  spawner.AnswerDestroy(Fail(Code::kDeadlineExceeded, "a process did not end"));
  ASSERT_TRUE(answer->called && !answer->result);
  EXPECT_TRUE(spawner.builds.empty());
  // It is destroyed again, as what is left of a failed build.
  ASSERT_EQ(spawner.destroys.size(), 1U);
  EXPECT_EQ(spawner.AnswerDestroy(), id);
  EXPECT_EQ(sandboxes->registry.Look(id), nullptr);
  ExpectHeldOnce();
}

TEST_F(WarmPoolsTest, WhatIsDeletedDuringTheChangeNeverStarts) {
  for (const bool changed : {true, false}) {
    Make(1);
    const std::string id = sandboxes->pools.Parked().front();
    const auto answer = Create(WithLimits());
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    if (changed) {
      spawner.AnswerLimits();
    } else {
      spawner.AnswerLimits(Fail(Code::kInternal, "memory.max: EBUSY"));
    }
    EXPECT_EQ(spawner.AnswerDestroy(), id);
    // The end of a sandbox that has lost its slot asks once more.
    if (!changed) {
      EXPECT_EQ(spawner.AnswerDestroy(), id);
    }
    EXPECT_TRUE(spawner.destroys.empty());
    EXPECT_TRUE(spawner.builds.empty());
    EXPECT_EQ(Started(execds.front()), "");
    EXPECT_EQ(sandboxes->registry.Look(id), nullptr);
    ExpectHeldOnce();
    ASSERT_TRUE(sandboxes->pools.Remove(kCaller, "warm"));
    execds.clear();
  }
}

// Only privilege raises a limit of open files again.
TEST_F(WarmPoolsTest, ALimitOfOpenFilesIsSetAndNotChanged) {
  config.check.limits_available.keys.push_back("nofile");
  Boot({});
  Make(1);
  Wanted wanted = OfPool();
  wanted.resource_limits["nofile"] = "1000";
  const auto answer = Create(wanted);
  ASSERT_EQ(spawner.limits.size(), 1U);
  EXPECT_EQ(spawner.AnswerLimits().limits.nofile, 1000U);
  EXPECT_TRUE(answer->called && answer->result);
  PoolRecord limited = Pool(1);
  limited.key = "limited";
  limited.resource_limits["nofile"] = "500";
  ASSERT_TRUE(sandboxes->pools.Create(kCaller, limited));
  Fill();
  wanted.spec.extensions[kPoolRef] = "limited";
  const auto other = Create(wanted);
  EXPECT_TRUE(spawner.limits.empty());
  EXPECT_EQ(spawner.builds.size(), 1U);
  spawner.AnswerBuild();
  EXPECT_TRUE(other->called && other->result);
  EXPECT_EQ(Cold(ColdReason::kOpenFiles, "limited"), 1U);
  wanted.resource_limits = {{"nofile", "500"}, {"memory", "64Mi"}};
  Create(wanted);
  EXPECT_EQ(spawner.limits.size(), 1U);
}

TEST_F(WarmPoolsTest, WhatIsOutOfDateIsBuiltAnew) {
  Make(1);
  const std::string old = sandboxes->pools.Parked().front();
  images.image.digest = "sha256:01";
  const auto answer = Create(OfPool());
  EXPECT_FALSE(answer->called);
  spawner.AnswerBuild();
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_NE(answer->result->id, old);
  loop.Pass(3 * kSecond);
  ASSERT_FALSE(spawner.destroys.empty());
  EXPECT_EQ(spawner.destroys.front().first, old);
  Fill();
  EXPECT_EQ(available(), 1U);
  EXPECT_NE(sandboxes->pools.Parked().front(), old);
}

TEST_F(WarmPoolsTest, ADeletedSandboxCountsNoMore) {
  Make(1, 1);
  const auto answer = Create(OfPool());
  ASSERT_TRUE(answer->called && answer->result);
  EXPECT_EQ(sandboxes->pools.Remove(kCaller, "warm").error().code(), Code::kFailedPrecondition);
  const auto more = Create(OfPool());
  ASSERT_TRUE(more->called && !more->result);
  EXPECT_EQ(more->result.error().code(), Code::kResourceExhausted);
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, answer->result->id));
  EXPECT_TRUE(sandboxes->pools.Remove(kCaller, "warm"));
}

TEST_F(WarmPoolsTest, OneThatCannotBeBuiltIsDestroyed) {
  ASSERT_TRUE(sandboxes->pools.Create(kCaller, Pool(1)));
  loop.Pass(50'000);
  ASSERT_EQ(spawner.builds.size(), 1U);
  const std::string id = spawner.builds.front().id;
  const auto done = std::move(spawner.builds.front().done);
  spawner.builds.pop_front();
  done(Fail(Code::kInternal, "step overlay"));
  ASSERT_FALSE(spawner.destroys.empty());
  EXPECT_EQ(spawner.destroys.front().first, id);
  EXPECT_NE(sandboxes->pools.Find(kCaller, "warm")->trouble, "");
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
  ASSERT_TRUE(sandboxes->pools.Find(kCaller, "warm"));
  EXPECT_EQ(sandboxes->pools.Find(kCaller, "warm")->record.capacity, Pool(2).capacity);
  Fill();
  EXPECT_EQ(available(), 2U);
}

// Pools that are created automatically.
class AutomaticPoolsTest : public WarmPoolsTest {
 protected:
  AutomaticPoolsTest() {
    config.automatic_pools = 2;
    config.parked_sandboxes = 6;
    images.others = {"image-64:latest", "image-65:latest", "image-66:latest"};
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
    while (!spawner.limits.empty()) spawner.AnswerLimits();
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
  // Other limits come with the claim. Members that are built later have them ahead.
  EXPECT_TRUE(Claims(Of("busybox", "64Mi")));
  EXPECT_TRUE(Claims(Of("busybox", "64Mi")));
  const auto answer = Create(Of("busybox", "64Mi"));
  EXPECT_TRUE(answer->called && answer->result);
  EXPECT_TRUE(spawner.limits.empty());
  Fill();
  EXPECT_EQ(parked(), 2U);
  EXPECT_TRUE(sandboxes->pools.List(kCaller).empty());
  for (const char* name : {"/busybox", "/docker.io/library/busybox:latest", "/busybox:latest"}) {
    EXPECT_FALSE(sandboxes->pools.Find(kCaller, name));
    EXPECT_FALSE(sandboxes->pools.Remove(kCaller, name));
  }
  EXPECT_EQ(sandboxes->pools.UserOf("", "busybox:latest"), nullptr);
}

TEST_F(AutomaticPoolsTest, WhatBelongsToTheBuildMakesNone) {
  Wanted wanted = Of("busybox");
  wanted.spec.readonly_root = true;
  EXPECT_FALSE(Claims(wanted));
  EXPECT_EQ(parked(), 0U);
}

TEST_F(AutomaticPoolsTest, TheLastUsedStay) {
  EXPECT_FALSE(Claims(Of("image-64:latest")));
  EXPECT_FALSE(Claims(Of("image-65:latest")));
  // Both pools were used a moment ago.
  EXPECT_FALSE(Claims(Of("image-66:latest")));
  EXPECT_FALSE(Claims(Of("image-66:latest")));
  loop.Pass(61 * kSecond);
  EXPECT_TRUE(Claims(Of("image-65:latest")));
  EXPECT_FALSE(Claims(Of("image-66:latest")));
  EXPECT_TRUE(Claims(Of("image-66:latest")));
  EXPECT_TRUE(Claims(Of("image-65:latest")));
  EXPECT_EQ(parked(), 4U);
  EXPECT_FALSE(Claims(Of("image-64:latest")));
  // Nobody uses the pools for ten minutes.
  loop.Pass(601 * kSecond);
  sandboxes->pools.Look();
  EXPECT_EQ(parked(), 0U);
}

TEST_F(AutomaticPoolsTest, TheyMakeRoomForThoseWithAName) {
  EXPECT_FALSE(Claims(Of("image-64:latest")));
  EXPECT_FALSE(Claims(Of("image-65:latest")));
  EXPECT_EQ(parked(), 4U);
  Make(4);
  EXPECT_EQ(available(), 4U);
  EXPECT_EQ(parked(), 6U);
  EXPECT_FALSE(Claims(Of("image-66:latest")));
  EXPECT_EQ(parked(), 6U);
}

}  // namespace
}  // namespace atl::sandbox
