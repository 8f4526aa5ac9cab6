#include "runtime/sandbox/create/slot_pool.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

class SlotPoolTest : public testing::Test {
 protected:
  SlotPoolTest() {
    char name[] = "/tmp/slot_pool_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    config.socket_directory = name;
    config.ready = 3;
  }
  ~SlotPoolTest() override { std::filesystem::remove_all(config.socket_directory); }

  // Releases the slot of a sandbox that has ended.
  void End(uint32_t slot) {
    pool->MarkUsed(slot);
    pool->Release(slot);
  }
  size_t Sockets() const {
    const std::filesystem::directory_iterator names(config.socket_directory);
    return static_cast<size_t>(std::distance(begin(names), end(names)));
  }

  SlotPool& Pool() {
    if (!pool) {
      pool = std::make_unique<SlotPool>(loop, clock, spawner, network, config);
      pool->Reset({}, {});
    }
    return *pool;
  }
  // Takes a slot. -1: not yet; -2: failed.
  std::shared_ptr<int> Take() {
    auto got = std::make_shared<int>(-1);
    Pool().Take(
        [got](Result<SlotPool::Ready> slot) { *got = slot ? static_cast<int>(slot->number) : -2; });
    loop.Run();
    return got;
  }

  FakeClock clock;
  FakeLoop loop{clock};
  FakeSpawner spawner{loop};
  FakeNetwork network;
  SlotPool::Config config;
  std::unique_ptr<SlotPool> pool;
};

TEST_F(SlotPoolTest, FillsInTheBackgroundAndHandsOut) {
  Pool();
  loop.Pass(100'000);
  EXPECT_EQ(pool->ready(), 3U);
  EXPECT_EQ(network.attached, (std::set<uint32_t>{1, 2, 3}));
  EXPECT_EQ(*Take(), 1);
  EXPECT_EQ(*Take(), 2);
  EXPECT_EQ(pool->misses_total(), 0U);
  loop.Pass(100'000);
  EXPECT_EQ(pool->ready(), 3U);
}

TEST_F(SlotPoolTest, DoesNotRefillWhileBusyUnlessSomebodyWaits) {
  Pool();
  loop.Pass(100'000);
  pool->SetBusy(true);
  Take();
  Take();
  loop.Pass(100'000);
  EXPECT_EQ(pool->ready(), 1U);
  Take();
  const auto waited = Take();  // the pool is empty, so it prepares one more
  EXPECT_EQ(*waited, 4);
  EXPECT_EQ(pool->misses_total(), 1U);
  loop.Pass(100'000);
  EXPECT_EQ(pool->ready(), 0U);
  pool->SetBusy(false);
  loop.Pass(100'000);
  EXPECT_EQ(pool->ready(), 3U);
}

TEST_F(SlotPoolTest, RefillWaitsAMomentAfterATake) {
  Pool();
  loop.Pass(100'000);
  Take();
  EXPECT_EQ(pool->ready(), 2U);
  loop.Pass(config.refill_delay_us - 1);
  EXPECT_EQ(pool->ready(), 2U);
  loop.Pass(2);
  EXPECT_EQ(pool->ready(), 3U);
}

TEST_F(SlotPoolTest, RefillGivesWay) {
  Pool();
  loop.Pass(100'000);
  Take();
  loop.Pass(config.refill_delay_us - 1);
  pool->GiveWay();
  loop.Pass(config.refill_delay_us - 1);
  EXPECT_EQ(pool->ready(), 2U);
  loop.Pass(2);
  EXPECT_EQ(pool->ready(), 3U);
}

TEST_F(SlotPoolTest, WaitersAreServedInOrder) {
  spawner.answer_prepares = false;
  config.ready = 0;
  const auto first = Take();
  const auto second = Take();
  const auto third = Take();
  EXPECT_EQ(spawner.prepares.size(), 2U);  // the limit is two in flight
  spawner.AnswerPrepare();
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(*second, -1);
  spawner.AnswerPrepare();
  spawner.AnswerPrepare();
  EXPECT_EQ(*second, 2);
  EXPECT_EQ(*third, 3);
  EXPECT_TRUE(spawner.prepares.empty());
}

TEST_F(SlotPoolTest, UsedNumbersRestUntilTheirLinkIsGone) {
  config.ready = 0;
  config.last_slot = 2;
  ASSERT_EQ(*Take(), 1);
  ASSERT_EQ(*Take(), 2);
  network.lingering = {1, 2};
  End(1);
  End(2);
  EXPECT_EQ(network.detached, (std::vector<uint32_t>{1, 2}));
  const auto waiting = Take();
  loop.Pass(50'000);
  EXPECT_EQ(*waiting, -1);
  network.lingering = {1};
  loop.Pass(50'000);
  EXPECT_EQ(*waiting, 2);  // a lingering link does not hold up the next slot
  // A request for a slot has a time limit.
  const auto later = Take();
  loop.Pass(9'000'000);
  EXPECT_EQ(*later, -1);
  loop.Pass(2'000'000);
  EXPECT_EQ(*later, -2);
}

TEST_F(SlotPoolTest, FreshNumbersComeBeforeJustUsedOnes) {
  config.ready = 0;
  ASSERT_EQ(*Take(), 1);
  End(1);
  EXPECT_EQ(*Take(), 2);
  loop.Pass(config.rest_us);
  EXPECT_EQ(*Take(), 1);
}

TEST_F(SlotPoolTest, NoNumberLeftIsAnError) {
  config.ready = 0;
  config.last_slot = 1;
  ASSERT_EQ(*Take(), 1);
  EXPECT_EQ(*Take(), -2);
  End(1);
  EXPECT_EQ(*Take(), 1);
}

TEST_F(SlotPoolTest, ANumberThatIsStillHeldIsPassedOver) {
  spawner.answer_prepares = false;
  config.ready = 0;
  const auto waiting = Take();
  spawner.prepare_error = Error(Code::kAlreadyExists, "slot 1: in use");
  spawner.AnswerPrepare();
  EXPECT_EQ(*waiting, -1);
  spawner.prepare_error.reset();
  spawner.AnswerPrepare();
  EXPECT_EQ(*waiting, 2);
}

// Any number of slots may still be waiting for the deletion of old files. The pool finds those that
// are not.
TEST_F(SlotPoolTest, ManyThatAreNotReadyAreNoFailure) {
  config.ready = 0;
  config.last_slot = 6;
  for (int i = 1; i <= 5; ++i) ASSERT_EQ(*Take(), i);
  for (uint32_t i = 1; i <= 5; ++i) End(i);
  clock.Advance(2'000'000);
  spawner.answer_prepares = false;
  const auto waiting = Take();
  spawner.prepare_error = Error(Code::kFailedPrecondition, "still being deleted");
  for (int i = 1; i <= 5; ++i) spawner.AnswerPrepare();
  EXPECT_EQ(*waiting, -1);
  spawner.prepare_error.reset();
  spawner.AnswerPrepare();
  EXPECT_EQ(*waiting, 6);
}

// If all slots wait for that, it is an error.
TEST_F(SlotPoolTest, NoneThatIsReadyIsAFailure) {
  config.ready = 0;
  config.last_slot = 2;
  for (int i = 1; i <= 2; ++i) ASSERT_EQ(*Take(), i);
  for (uint32_t i = 1; i <= 2; ++i) End(i);
  clock.Advance(2'000'000);
  spawner.answer_prepares = false;
  const auto waiting = Take();
  spawner.prepare_error = Error(Code::kFailedPrecondition, "still being deleted");
  for (int i = 0; i < 20 && *waiting == -1; ++i) spawner.AnswerPrepare();
  EXPECT_EQ(*waiting, -2);
}

TEST_F(SlotPoolTest, FailuresInARowAreTheFirstWaitersOnly) {
  spawner.answer_prepares = false;
  config.ready = 0;
  const auto first = Take();
  const auto second = Take();
  spawner.prepare_error = Error(Code::kInternal, "no");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*first, -1);
    spawner.AnswerPrepare();
  }
  EXPECT_EQ(*first, -2);
  spawner.prepare_error.reset();
  spawner.AnswerPrepare();
  EXPECT_GT(*second, 0);
}

TEST_F(SlotPoolTest, BackgroundFailuresAreNotRetriedAtOnce) {
  spawner.prepare_error = Error(Code::kInternal, "no");
  Pool();
  loop.Pass(500'000);
  spawner.prepare_error.reset();
  loop.Pass(400'000);
  EXPECT_EQ(pool->ready(), 0U);
  loop.Pass(200'000);
  EXPECT_EQ(pool->ready(), 3U);
}

TEST_F(SlotPoolTest, ASlotThatCannotBeAttachedIsDropped) {
  config.ready = 0;
  network.attach_error = Error(Code::kInternal, "no");
  EXPECT_EQ(*Take(), -2);
  EXPECT_EQ(spawner.dropped, (std::vector<uint32_t>{1, 2, 3}));
  network.attach_error.reset();
  EXPECT_EQ(*Take(), 4);
}

TEST_F(SlotPoolTest, OnlyTheStockBootsAhead) {
  config.ready = 2;
  config.ahead = true;
  config.tier = "microvm";
  Pool();
  loop.Pass(100'000);
  EXPECT_EQ(spawner.ahead, (std::map<uint32_t, bool>{{1, true}, {2, true}}));
  // A waiter takes its slot before anything could boot.
  std::optional<int> got;
  pool->Take([&](Result<SlotPool::Ready> slot) { got = static_cast<int>(slot->number); });
  loop.Run();
  EXPECT_EQ(got, 3);
  EXPECT_EQ(spawner.tiers.at(3), "namespace");
  EXPECT_FALSE(spawner.ahead.at(3));
}

TEST_F(SlotPoolTest, ResetDropsWhatWasPreparedAndSparesTheLive) {
  pool = std::make_unique<SlotPool>(loop, clock, spawner, network, config);
  pool->Reset({1, 4}, {2});
  EXPECT_EQ(spawner.dropped, (std::vector<uint32_t>{2}));
  loop.Pass(100'000);
  EXPECT_EQ(network.attached, (std::set<uint32_t>{3, 5, 6}));
  EXPECT_EQ(*Take(), 3);
}

TEST_F(SlotPoolTest, ANewSpawnerGetsNothingOfTheOld) {
  Pool();
  loop.Pass(100'000);
  ASSERT_EQ(*Take(), 1);
  spawner.answer_prepares = false;
  loop.Pass(100'000);
  ASSERT_EQ(spawner.prepares.size(), 1U);  // still in flight when the old spawner ends
  pool->Reset({1}, {});
  EXPECT_EQ(pool->ready(), 0U);
  spawner.AnswerPrepare();  // the old spawner's answer
  EXPECT_EQ(pool->ready(), 0U);
  spawner.answer_prepares = true;
  while (!spawner.prepares.empty()) spawner.AnswerPrepare();
  loop.Pass(100'000);
  EXPECT_EQ(pool->ready(), 3U);
  const auto slot = Take();
  EXPECT_GT(*slot, 3);  // 2 and 3 rest, because their namespaces may still exist
}

TEST_F(SlotPoolTest, SocketsGoWithTheirSlots) {
  Pool();
  loop.Pass(100'000);
  EXPECT_EQ(Sockets(), 3U);
  const auto slot = Take();  // whoever takes the slot gets its socket
  pool->Release(static_cast<uint32_t>(*slot));
  EXPECT_EQ(Sockets(), 2U);
  pool.reset();
  EXPECT_EQ(Sockets(), 0U);
}

TEST_F(SlotPoolTest, WithoutItsSocketsASlotIsNotAskedFor) {
  config.ready = 0;
  config.socket_directory += "/absent";
  EXPECT_EQ(*Take(), -2);
  EXPECT_TRUE(spawner.prepares.empty());
}

TEST_F(SlotPoolTest, MendsNothingWhereNothingIsWrong) {
  Pool();
  loop.Pass(100'000);
  const auto taken = Take();
  loop.Pass(100'000);
  const auto released = Take();
  End(static_cast<uint32_t>(*released));
  loop.Pass(100'000);
  const auto wrong = pool->Mend({static_cast<uint32_t>(*taken)}, {3, 4, 5});
  EXPECT_EQ(wrong.slots + wrong.links, 0U);
  EXPECT_EQ(pool->ready(), 3U);
}

TEST_F(SlotPoolTest, MendsWhatNobodyHas) {
  Pool();
  loop.Pass(100'000);
  EXPECT_EQ(*Take(), 1);
  loop.Pass(100'000);
  // 1 is an orphan, 3 was lost in stock, 9 is in the spawner's stock and unknown here.
  const auto wrong = pool->Mend({}, {2, 4, 9});
  EXPECT_EQ(wrong.slots, 3U);
  loop.Pass(100'000);
  EXPECT_EQ(spawner.dropped, std::vector<uint32_t>{9});
  EXPECT_EQ(network.detached, (std::vector<uint32_t>{1, 3, 9}));
  EXPECT_EQ(pool->ready(), 3U);  // refilled
  EXPECT_EQ(pool->resting(), 3U);
}

TEST_F(SlotPoolTest, MendsLinksThatOutliveTheirSlots) {
  Pool();
  loop.Pass(100'000);
  const auto taken = Take();
  network.lingering.insert(1);
  End(static_cast<uint32_t>(*taken));
  loop.Pass(1'000'000);
  EXPECT_EQ(pool->Mend({}, {2, 3, 4}).links, 0U);  // the link may still end by itself
  loop.Pass(60'000'000);
  EXPECT_EQ(pool->Mend({}, {2, 3, 4}).links, 1U);
  EXPECT_EQ(network.links_removed, 1U);
}

}  // namespace
}  // namespace atl::sandbox
