#include "runtime/tenants/usage/ledger.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace atl::tenants {
namespace {

constexpr int64_t kNow = 500'000 * kHourMs;  // begins an hour
constexpr uint64_t kMib = 1 << 20;

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    char name[] = "/tmp/atoll-ledger.XXXXXX";
    directory = ::mkdtemp(name);
    Open();
  }
  ~LedgerTest() override {
    ledger.reset();
    std::filesystem::remove_all(directory);
  }
  // A new daemon; what was not committed is lost.
  void Open(const std::string& boot = "b0071d00-0000", Ledger::Settings settings = {}) {
    ledger.reset();
    auto opened = Ledger::Open(directory + "/usage.db", boot, settings, At(kNow));
    ASSERT_TRUE(opened) << opened.error().message();
    ledger = std::move(*opened);
  }
  void Begin(const std::string& id, const std::string& owner = "", int64_t at_ms = kNow) {
    ledger->Begin({.id = id,
                   .sandbox = id,
                   .owner = owner,
                   .image = "busybox:latest",
                   .labels = {{"team", owner + "-team"}}},
                  {.cpu_millis = 500, .memory_bytes = 64 * kMib}, At(at_ms));
  }
  void Commit(int64_t now_ms = kNow) {
    const Status committed = ledger->Commit(At(now_ms), true);
    ASSERT_TRUE(committed) << committed.error().message();
  }
  UsageAnswer Ask(UsageQuery query = {}) {
    if (query.until_ms == 0) query.since_ms = kNow - kHourMs, query.until_ms = kNow + 5 * kHourMs;
    auto answer = ledger->Query(query);
    EXPECT_TRUE(answer) << answer.error().message();
    return answer ? std::move(*answer) : UsageAnswer();
  }
  Amounts Sum() {
    Amounts sum;
    for (const UsageRow& row : Ask().rows) {
      for (const AmountField& field : kAmounts) {
        sum.*field.value += row.amounts.*field.value;
      }
    }
    return sum;
  }

  // A moment that is so long after the test's begin as `ms` is after kNow.
  Instant At(int64_t ms) const { return {ms + stepped_ms, ms - kNow + uptime_ms}; }

  int64_t stepped_ms = 0;  // size of the step that the wall clock has made
  int64_t uptime_ms = 3 * kHourMs;
  std::string directory;
  std::unique_ptr<Ledger> ledger;
};

TEST_F(LedgerTest, AddsWhatIsNewInCounters) {
  Begin("a");
  UsageReading reading{.cpu_us = 1000, .memory_bytes = 10 * kMib, .bytes_in = 5, .bytes_out = 7};
  ledger->Sample("a", reading, At(kNow + 10'000));
  Commit();
  reading.cpu_us = 4000;
  reading.read_bytes = 11;
  ledger->Sample("a", reading, At(kNow + 20'000));
  ledger->Sample("a", reading, At(kNow + 20'000));
  Commit();
  const Amounts sum = Sum();
  EXPECT_EQ(sum.cpu_us, 4000);
  EXPECT_EQ(sum.bytes_in, 5);
  EXPECT_EQ(sum.bytes_out, 7);
  EXPECT_EQ(sum.read_bytes, 11);
  EXPECT_EQ(sum.creates, 1);
  EXPECT_EQ(sum.memory_kib_ms, 10 * 1024 * 20'000);
  EXPECT_EQ(sum.cpu_reserved_us, 500 * 20'000);
  EXPECT_EQ(sum.memory_reserved_kib_ms, 64 * 1024 * 20'000);
}

TEST_F(LedgerTest, MemoryIsATrapezoid) {
  Begin("a");
  ledger->Sample("a", {.memory_bytes = 10 * kMib}, At(kNow + 10'000));
  ledger->Sample("a", {.memory_bytes = 30 * kMib}, At(kNow + 20'000));
  ledger->End("a", UsageReading{.memory_bytes = 50 * kMib}, At(kNow + 22'000));
  Commit();
  EXPECT_EQ(Sum().memory_kib_ms, 1024 * (10 * 10'000 + 20 * 10'000 + 40 * 2'000));
}

TEST_F(LedgerTest, AShortLifeIsHalfOfItsPeak) {
  Begin("a");
  ledger->End("a", UsageReading{.peak_memory_bytes = 30 * kMib}, At(kNow + 4'000));
  Commit();
  EXPECT_EQ(Sum().memory_kib_ms, 1024 * 15 * 4'000);
}

// The kernel's counter includes what the group used before the claim.
TEST_F(LedgerTest, TheBaseIsNotOwed) {
  ledger->Begin(
      {.id = "a", .sandbox = "a", .base = {.cpu_us = 700, .bytes_in = 30, .read_bytes = 4}}, {},
      At(kNow));
  ledger->SampleHost(10'000, At(kNow));
  ledger->End("a", UsageReading{.cpu_us = 1000, .bytes_in = 31, .read_bytes = 9}, At(kNow + 1000));
  ledger->SampleHost(11'000, At(kNow + 1000));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 300);
  EXPECT_EQ(Sum().bytes_in, 1);
  EXPECT_EQ(Sum().read_bytes, 5);
  EXPECT_EQ(Ask().unallocated_cpu_us, 700);
}

TEST_F(LedgerTest, TheDiskIsATrapezoidFromNothing) {
  Begin("a");
  ledger->SampleDisk("a", 20 * kMib, At(kNow + 60'000));
  Commit();
  Open();
  ledger->SampleDisk("a", 40 * kMib, At(kNow + 120'000));
  ledger->End("a", UsageReading{.disk_bytes = 60 * kMib}, At(kNow + 130'000));
  ledger->SampleDisk("a", 90 * kMib, At(kNow + 180'000));
  Commit();
  EXPECT_EQ(Sum().disk_kib_ms, 1024LL * (10 * 60'000 + 30 * 60'000 + 50 * 10'000));
  Begin("b");
  ledger->End("b", UsageReading{}, At(kNow + 10'000));
  Commit();
  EXPECT_EQ(Sum().disk_kib_ms, 1024LL * (10 * 60'000 + 30 * 60'000 + 50 * 10'000)) << "no quotas";
}

TEST_F(LedgerTest, CommandsAreAddedUp) {
  Begin("a");
  ledger->CountCommands("a", 3, At(kNow + 1000));
  Commit();
  ledger->CountCommands("a", 2, At(kNow + kHourMs));
  ledger->CountCommands("unknown", 2, At(kNow));
  Commit(kNow + kHourMs);
  EXPECT_EQ(Sum().commands, 5);
}

TEST_F(LedgerTest, NamedSandboxesHaveARowEach) {
  for (const char* id : {"a", "b", "c"}) Begin(id, "red");
  ledger->Begin({.id = "b-1", .sandbox = "b", .owner = "red", .first = false}, {}, At(kNow));
  for (const char* id : {"a", "b", "b-1"})
    ledger->End(id, UsageReading{.cpu_us = 20}, At(kNow + 10));
  ledger->Sample("c", {.cpu_us = 5}, At(kNow + 10));
  Commit();
  UsageQuery query{.since_ms = 0,
                   .until_ms = kNow + kHourMs,
                   .by = UsageQuery::By::kSandbox,
                   .owner = "red",
                   .sandboxes = {"b", "a"}};
  UsageAnswer answer = Ask(query);
  ASSERT_EQ(answer.rows.size(), 2U);
  EXPECT_EQ(answer.rows[0].key, "b");
  EXPECT_EQ(answer.rows[0].amounts.cpu_us, 40);
  EXPECT_EQ(answer.rows[1].key, "a");
  EXPECT_TRUE(answer.complete);
  query.sandboxes.push_back("c");
  answer = Ask(query);
  EXPECT_EQ(answer.rows.size(), 3U);
  EXPECT_FALSE(answer.complete) << "c has not ended";
  query.owner = "blue";
  EXPECT_TRUE(Ask(query).rows.empty());
}

TEST_F(LedgerTest, WhatOwnersKeepCountsByTime) {
  ledger->Keep({{"red", {.snapshot_bytes = 3 * kMib}}, {"blue", {.parked = 2}}}, At(kNow));
  ledger->Keep({{"red", {.snapshot_bytes = kMib, .parked = 1}}, {"blue", {.parked = 2}}},
               At(kNow + 10'000));
  ledger->SampleHost(0, At(kNow + 15'000));
  Commit();
  const auto of = [this](const std::string& owner) {
    const UsageAnswer answer = Ask();
    for (const UsageRow& row : answer.rows) {
      if (row.key == owner) return row.amounts;
    }
    return Amounts();
  };
  EXPECT_EQ(of("red").snapshot_kib_ms, 1024 * (3 * 10'000 + 5'000));
  EXPECT_EQ(of("red").parked_us, 5'000'000);
  EXPECT_EQ(of("blue").parked_us, 30'000'000);
  EXPECT_EQ(Sum().creates, 0);
  // Snapshots are there while no daemon runs.
  Open();
  ledger->Keep({{"red", {.snapshot_bytes = kMib}}}, At(kNow + 25'000));
  ledger->EndOthers({});
  ledger->SampleHost(0, At(kNow + 35'000));
  Commit();
  EXPECT_EQ(of("red").snapshot_kib_ms, 1024 * (3 * 10'000 + 25'000));
  EXPECT_EQ(of("red").parked_us, 15'000'000);
  EXPECT_EQ(of("blue").parked_us, 50'000'000) << "it keeps nothing more";
  EXPECT_TRUE(Ask().complete);
}

TEST_F(LedgerTest, OnlySnapshotsOutliveTheHost) {
  ledger->Keep({{"red", {.snapshot_bytes = kMib, .parked = 1}}}, At(kNow));
  ledger->SampleHost(0, At(kNow + 1'000));
  Commit();
  const std::string record = [this] {
    return Ask({.since_ms = kNow, .until_ms = kNow + 1, .by = UsageQuery::By::kSandbox})
        .rows.at(0)
        .record;
  }();
  uptime_ms = 1'000;
  Open("b0072d00-0000");
  Commit();
  Open("b0072d00-0000");
  ledger->Keep({{"red", {.snapshot_bytes = kMib}}}, At(kNow + 100'000));
  ledger->SampleHost(0, At(kNow + 100'000));
  Commit();
  EXPECT_EQ(Sum().parked_us, 1'000'000);
  EXPECT_EQ(Sum().snapshot_kib_ms, 1024 * 100'000);
  const UsageAnswer answer =
      Ask({.since_ms = kNow, .until_ms = kNow + 1, .by = UsageQuery::By::kSandbox});
  EXPECT_EQ(answer.rows.at(0).record, record) << "bills go by it";
}

TEST_F(LedgerTest, PoolsAreNobodys) {
  ledger->KeepUnowned(2, At(kNow));
  ledger->KeepUnowned(1, At(kNow + kHourMs));
  ledger->SampleHost(0, At(kNow + kHourMs + 1'000));
  Commit();
  EXPECT_EQ(Ask().unallocated_parked_us, (2 * kHourMs + 1'000) * 1'000);
  EXPECT_EQ(Ask({.since_ms = kNow, .until_ms = kNow + 1}).unallocated_parked_us,
            2 * kHourMs * 1'000);
  EXPECT_TRUE(Ask().rows.empty());
}

TEST_F(LedgerTest, AnEndCountsOnceWhoeverReportsItAgain) {
  Begin("a");
  const UsageReading end{.cpu_us = 900, .bytes_out = 5};
  ledger->End("a", end, At(kNow + 5000));
  ledger->End("a", end, At(kNow + 6000));
  Commit();
  ledger->End("a", end, At(kNow + 7000));
  Commit();
  Open();
  ledger->End("a", end, At(kNow + 8000));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 900);
  EXPECT_EQ(Sum().bytes_out, 5);
  EXPECT_EQ(Sum().cpu_reserved_us, 500 * 5000);
  EXPECT_EQ(Ask().rows.size(), 1U);
}

TEST_F(LedgerTest, AnUnknownEndStaysUnallocated) {
  ledger->SampleHost(0, At(kNow));
  ledger->End("a", UsageReading{.cpu_us = 900}, At(kNow + 5000));
  ledger->SampleHost(900, At(kNow + 5000));
  Commit();
  EXPECT_TRUE(Ask().rows.empty());
  EXPECT_EQ(Ask().unallocated_cpu_us, 900);
  UsageQuery of_one{.since_ms = kNow, .until_ms = kNow + kHourMs, .owner = "red"};
  EXPECT_EQ(Ask(of_one).unallocated_cpu_us, 0);
}

TEST_F(LedgerTest, ADaemonThatDiesLosesNothingThatWasCommitted) {
  Begin("a");
  ledger->Sample("a", {.cpu_us = 1000, .memory_bytes = kMib}, At(kNow + 10'000));
  Commit();
  ledger->Sample("a", {.cpu_us = 5000, .memory_bytes = kMib}, At(kNow + 20'000));
  Open();
  Begin("a", "", kNow + 30'000);
  ledger->Sample("a", {.cpu_us = 7000, .memory_bytes = kMib}, At(kNow + 30'000));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 7000);
  EXPECT_EQ(Sum().creates, 1);
  EXPECT_EQ(Sum().memory_kib_ms, 1024 * 30'000);
  EXPECT_TRUE(Ask().complete);
}

TEST_F(LedgerTest, ADeadHostsSandboxesEndAtTheirLastSample) {
  Begin("a");
  ledger->Sample("a", {.cpu_us = 1000}, At(kNow + 10'000));
  ledger->SampleHost(50'000, At(kNow + 10'000));
  Commit();
  uptime_ms = 1'000;
  Open("another boot");
  ledger->SampleHost(20, At(kNow + 60'000));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 1000);
  EXPECT_EQ(Sum().cpu_reserved_us, 500 * 10'000);
  EXPECT_FALSE(Ask().complete) << "what it used afterwards is not known";
  EXPECT_EQ(Ask().unallocated_cpu_us, 20 - 1000) << "counters begin anew";
}

TEST_F(LedgerTest, AReadingCorrectsAnEstimate) {
  Begin("a");
  Begin("b");
  ledger->Sample("a", {.cpu_us = 1000}, At(kNow + 10'000));
  Commit();
  ledger->EndOthers({"b"});
  Commit();
  EXPECT_FALSE(Ask().complete);
  ledger->End("a", UsageReading{.cpu_us = 3000}, At(kNow + 12'000));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 3000);
  EXPECT_TRUE(Ask().complete);
  ledger->Sample("b", {.cpu_us = 10}, At(kNow + 20'000));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 3010) << "the other one lives";
}

// Durations are those of the boot clock. `step`: what is done to the wall clock in between.
class LedgerStepTest : public LedgerTest, public testing::WithParamInterface<int64_t> {
 protected:
  Amounts SumOfAll() {
    Amounts sum;
    for (const UsageRow& row : Ask({.since_ms = 0, .until_ms = kNow + 10'000 * kHourMs}).rows) {
      for (const AmountField& field : kAmounts) sum.*field.value += row.amounts.*field.value;
    }
    return sum;
  }
};
INSTANTIATE_TEST_SUITE_P(, LedgerStepTest,
                         testing::Values(0, 7 * kHourMs, -7 * kHourMs, 2'000, -2'000));

TEST_P(LedgerStepTest, BillsNothing) {
  Begin("a");
  ledger->Keep({{"red", {.snapshot_bytes = kMib}}}, At(kNow));
  ledger->KeepUnowned(1, At(kNow));
  ledger->Sample("a", {.cpu_us = 1, .memory_bytes = 2 * kMib}, At(kNow + 10'000));
  ledger->SampleDisk("a", 4 * kMib, At(kNow + 10'000));
  Commit();
  stepped_ms = GetParam();
  ledger->Sample("a", {.cpu_us = 2, .memory_bytes = 2 * kMib}, At(kNow + 20'000));
  ledger->SampleDisk("a", 4 * kMib, At(kNow + 20'000));
  // A job of the time before the step comes late.
  stepped_ms = 0;
  ledger->Hold("a", {.cpu_millis = 500}, At(kNow + 20'000));
  stepped_ms = GetParam();
  ledger->End("a", UsageReading{.cpu_us = 3}, At(kNow + 30'000));
  ledger->SampleHost(3, At(kNow + 30'000));
  Commit();
  const Amounts sum = SumOfAll();
  EXPECT_EQ(sum.cpu_us, 3);
  EXPECT_EQ(sum.cpu_reserved_us, 500 * 30'000);
  EXPECT_EQ(sum.memory_reserved_kib_ms, 64 * 1024 * 20'000);
  EXPECT_EQ(sum.memory_kib_ms, 2 * 1024 * 30'000);
  EXPECT_EQ(sum.disk_kib_ms, 1024 * (2 * 10'000 + 4 * 10'000));
  EXPECT_EQ(sum.snapshot_kib_ms, 1024 * 30'000);
  EXPECT_EQ(Ask({.since_ms = 0, .until_ms = kNow + 10'000 * kHourMs}).unallocated_parked_us,
            30'000'000);
}

TEST_P(LedgerStepTest, BillsNothingWhileNoDaemonRuns) {
  Begin("a");
  Begin("b");
  ledger->Keep({{"red", {.snapshot_bytes = kMib}}}, At(kNow));
  ledger->Sample("a", {.cpu_us = 1}, At(kNow + 10'000));
  ledger->EndOthers({"a"});
  Commit();
  stepped_ms = GetParam();
  Open();
  ledger->Sample("a", {.cpu_us = 2}, At(kNow + 20'000));
  ledger->End("b", UsageReading{.cpu_us = 2}, At(kNow + 20'000));
  ledger->Keep({}, At(kNow + 20'000));
  Commit();
  EXPECT_EQ(SumOfAll().cpu_reserved_us, 2 * 500 * 20'000);
  EXPECT_EQ(SumOfAll().snapshot_kib_ms, 1024 * 20'000);
}

TEST_P(LedgerStepTest, CountsInTheHourOfTheWallClock) {
  Begin("a");
  stepped_ms = GetParam();
  ledger->Sample("a", {.cpu_us = 2}, At(kNow + kHourMs / 2));
  Commit();
  const int64_t hour = (kNow + kHourMs / 2 + GetParam()) / kHourMs * kHourMs;
  EXPECT_GT(Ask({.since_ms = hour, .until_ms = hour + 1}).rows.at(0).amounts.cpu_us, 0);
}

// Its parts have Unix times only.
TEST_F(LedgerTest, GoesOnWithALedgerOfAnOlderRelease) {
  Begin("a");
  Begin("b");
  ledger->Sample("a", {.cpu_us = 1, .memory_bytes = kMib}, At(kNow + 10'000));
  ledger->EndOthers({"a"});
  Commit();
  ledger.reset();
  {
    auto db = sqlite::Db::Open(directory + "/usage.db");
    ASSERT_TRUE(db && db->Exec("UPDATE parts SET offset_ms=0"));
  }
  Open();
  ledger->Sample("a", {.cpu_us = 1, .memory_bytes = kMib}, At(kNow + 20'000));
  ledger->End("b", UsageReading{.cpu_us = 2}, At(kNow + 20'000));
  Commit();
  EXPECT_EQ(Sum().cpu_reserved_us, 2 * 500 * 20'000);
  EXPECT_EQ(Sum().memory_kib_ms, 1024 * 20'000);
}

TEST_F(LedgerTest, HoursAreApart) {
  Begin("a", "", kNow + kHourMs / 2);
  ledger->Sample("a", {.cpu_us = 4000}, At(kNow + 2 * kHourMs + kHourMs / 2));
  Commit();
  const UsageAnswer steps =
      Ask({.since_ms = kNow, .until_ms = kNow + 3 * kHourMs, .step_hours = 1});
  ASSERT_EQ(steps.rows.size(), 3U);
  std::map<int64_t, int64_t> cpu;
  for (const UsageRow& row : steps.rows) cpu[row.started_ms] = row.amounts.cpu_us;
  EXPECT_EQ(cpu, (std::map<int64_t, int64_t>{
                     {kNow, 1000}, {kNow + kHourMs, 2000}, {kNow + 2 * kHourMs, 1000}}));
  EXPECT_EQ(
      Ask({.since_ms = kNow + kHourMs, .until_ms = kNow + 2 * kHourMs}).rows[0].amounts.cpu_us,
      2000);
}

TEST_F(LedgerTest, HeldTimesTimeByState) {
  Begin("a");
  ledger->Hold("a", {.cpu_millis = 0, .memory_bytes = 64 * kMib}, At(kNow + 1000));
  ledger->Hold("a", {.cpu_millis = 0, .memory_bytes = 0}, At(kNow + 3000));
  ledger->End("a", UsageReading{}, At(kNow + 9000));
  Commit();
  EXPECT_EQ(Sum().cpu_reserved_us, 500 * 1000);
  EXPECT_EQ(Sum().memory_reserved_kib_ms, 64 * 1024 * 3000);
}

TEST_F(LedgerTest, RowsByOwnerLabelImageAndSandbox) {
  for (const auto& [id, owner] :
       {std::pair{"a", "red"}, std::pair{"b", "red"}, std::pair{"c", "blue"}}) {
    Begin(id, owner);
    ledger->End(id, UsageReading{.cpu_us = 100}, At(kNow + 10));
  }
  Commit();
  const auto keys = [&](UsageQuery query) {
    query.since_ms = kNow;
    query.until_ms = kNow + 1;
    std::map<std::string, int64_t> found;
    for (const UsageRow& row : Ask(query).rows) found[row.key] += row.amounts.cpu_us;
    return found;
  };
  using Keys = std::map<std::string, int64_t>;
  using By = UsageQuery::By;
  EXPECT_EQ(keys({.by = By::kTenant}), (Keys{{"red", 200}, {"blue", 100}}));
  EXPECT_EQ(keys({.by = By::kTenant, .owner = "red"}), (Keys{{"red", 200}}));
  EXPECT_EQ(keys({.by = By::kLabel, .label = "team"}),
            (Keys{{"red-team", 200}, {"blue-team", 100}}));
  EXPECT_EQ(keys({.by = By::kLabel, .label = "te'am\"]"}), (Keys{{"", 300}}));
  EXPECT_EQ(keys({.by = By::kImage}), (Keys{{"busybox:latest", 300}}));
  EXPECT_EQ(keys({.by = By::kSandbox, .owner = "blue"}), (Keys{{"c", 100}}));
}

// The numbers of a restored ledger are given out again.
TEST_F(LedgerTest, RecordsAreUniqueAlsoAfterARestore) {
  const auto records = [this] {
    std::map<std::string, std::string> found;
    for (const UsageRow& row :
         Ask({.since_ms = kNow, .until_ms = kNow + 1, .by = UsageQuery::By::kSandbox}).rows) {
      found[row.key] = row.record;
    }
    return found;
  };
  Begin("a");
  Commit();
  ledger.reset();
  const std::string top = directory, copy = directory + "/copy";
  std::filesystem::copy(top, copy);
  Open();
  Begin("b");
  Commit();
  const auto lost = records();
  ledger.reset();
  directory = copy;
  Open();
  directory = top;
  Begin("c");
  Commit();
  const auto restored = records();
  ASSERT_EQ(restored.size(), 2U);
  EXPECT_EQ(restored.at("a"), lost.at("a"));
  EXPECT_NE(restored.at("c"), lost.at("b"));
}

TEST_F(LedgerTest, NewLabelsCountForAll) {
  Begin("a", "red");
  ledger->Sample("a", {.cpu_us = 100}, At(kNow + 10));
  Commit();
  ledger->Describe("a", {{"team", "ops"}});
  Commit();
  UsageQuery by{.since_ms = kNow, .until_ms = kNow + 1, .by = UsageQuery::By::kLabel};
  by.label = "team";
  EXPECT_EQ(Ask(by).rows.at(0).key, "ops");
}

TEST_F(LedgerTest, ManyKeysAreOneAboveTheBound) {
  constexpr int kMany = 1200;
  for (int i = 0; i < kMany; ++i) {
    const std::string id = "s" + std::to_string(i);
    Begin(id, id);
    ledger->End(id, UsageReading{.cpu_us = 10}, At(kNow + 10));
  }
  Commit();
  const UsageAnswer answer = Ask();
  ASSERT_EQ(answer.rows.size(), Ledger::kMaxRows + 1);
  EXPECT_EQ(answer.rows.back().key, kOtherKey);
  EXPECT_EQ(answer.rows.back().amounts.cpu_us, 10 * (kMany - 1000));
  EXPECT_EQ(Sum().creates, kMany);
}

// Rows by sandbox without those of owners.
std::map<std::string, int64_t> Detailed(const UsageAnswer& answer) {
  std::map<std::string, int64_t> found;
  for (const UsageRow& row : answer.rows) {
    if (!row.key.empty()) found[row.key] += row.amounts.cpu_us;
  }
  return found;
}

TEST_F(LedgerTest, WhoHasTooMuchLosesDetailsOfItsOldestHours) {
  Open("b0071d00-0000", {.keep_hours = 100, .most_rows = 12});
  Begin("quiet", "blue");
  ledger->End("quiet", UsageReading{.cpu_us = 7}, At(kNow + 10));
  for (int i = 0; i < 20; ++i) {
    const std::string id = "loud" + std::to_string(i);
    const int64_t at = kNow + i / 5 * kHourMs;
    Begin(id, "red", at);
    ledger->End(id, UsageReading{.cpu_us = 10}, At(at + 10));
    Commit(at);
  }
  Commit(kNow + 4 * kHourMs);
  const auto of = [this](const std::string& owner, UsageQuery::By by) {
    return Ask({.since_ms = kNow, .until_ms = kNow + 5 * kHourMs, .by = by, .owner = owner});
  };
  for (int start = 0; start < 2; ++start) {
    const UsageAnswer red = of("red", UsageQuery::By::kTenant);
    ASSERT_EQ(red.rows.size(), 1U);
    EXPECT_EQ(red.rows[0].amounts.cpu_us, 200) << "the bill is the same";
    EXPECT_EQ(red.rows[0].amounts.creates, 20);
    EXPECT_EQ(red.rows[0].amounts.cpu_reserved_us, 20 * 500 * 10);
    EXPECT_TRUE(red.complete);
    const UsageAnswer details = of("red", UsageQuery::By::kSandbox);
    EXPECT_FALSE(details.complete);
    EXPECT_LE(Detailed(details).size(), 10U);
    EXPECT_TRUE(Detailed(details).contains("loud19")) << "the newest";
    EXPECT_FALSE(Detailed(details).contains("loud0"));
    EXPECT_TRUE(Ask({.since_ms = kNow + 3 * kHourMs,
                     .until_ms = kNow + 5 * kHourMs,
                     .by = UsageQuery::By::kSandbox})
                    .complete);
    const UsageAnswer blue = of("blue", UsageQuery::By::kSandbox);
    EXPECT_EQ(Detailed(blue), (std::map<std::string, int64_t>{{"quiet", 7}}));
    EXPECT_TRUE(blue.complete);
    EXPECT_FALSE(
        Ask({.since_ms = kNow, .until_ms = kNow + 1, .by = UsageQuery::By::kLabel, .label = "team"})
            .complete);
    Open("b0071d00-0000", {.keep_hours = 100, .most_rows = 12});
  }
  // It goes on from the folded amounts.
  Begin("later", "red", kNow + 4 * kHourMs);
  ledger->End("later", UsageReading{.cpu_us = 1}, At(kNow + 4 * kHourMs));
  Commit(kNow + 4 * kHourMs);
  EXPECT_EQ(of("red", UsageQuery::By::kTenant).rows[0].amounts.cpu_us, 201);
  // The hours in which details were lost are themselves too old.
  Commit(kNow + 110 * kHourMs);
  EXPECT_TRUE(Ask({.since_ms = kNow + 105 * kHourMs,
                   .until_ms = kNow + 110 * kHourMs,
                   .by = UsageQuery::By::kSandbox})
                  .complete);
}

// A tenant that creates without end, within one hour.
TEST_F(LedgerTest, ALivingPartGoesOnAfterItsAmountsWereFolded) {
  Open("b0071d00-0000", {.keep_hours = 100, .most_rows = 16});
  Begin("lives", "red");
  ledger->Sample("lives", {.cpu_us = 5}, At(kNow + 10));
  for (int i = 0; i < 40; ++i) {
    const std::string id = "s" + std::to_string(i);
    Begin(id, "red");
    ledger->End(id, UsageReading{.cpu_us = 10}, At(kNow + 10));
    Commit();
    EXPECT_LE(
        Detailed(
            Ask({.since_ms = kNow, .until_ms = kNow + kHourMs, .by = UsageQuery::By::kSandbox}))
            .size(),
        16U + 2U);
  }
  ledger->End("lives", UsageReading{.cpu_us = 9}, At(kNow + 20));
  Commit();
  EXPECT_EQ(Sum().cpu_us, 409);
  EXPECT_EQ(Sum().creates, 41);
}

TEST_F(LedgerTest, LongLabelsTakeMoreOfTheBound) {
  Open("b0071d00-0000", {.keep_hours = 100, .most_rows = 100});
  const auto label = [this](const std::string& id, size_t size) {
    ledger->Describe(id, {{"team", std::string(size, 'x')}});
  };
  for (int i = 0; i < 10; ++i) {
    const std::string id = "s" + std::to_string(i);
    const int64_t at = kNow + i * kHourMs;
    Begin(id, "red", at);
    label(id, 20 * Ledger::kRowBytes);
    ledger->End(id, UsageReading{.cpu_us = 10}, At(at + 10));
    Begin("blue" + id, "blue", at);
    ledger->End("blue" + id, UsageReading{.cpu_us = 1}, At(at + 10));
    Commit(at);
  }
  Commit(kNow + 10 * kHourMs);
  const auto detailed = [this](const std::string& owner) {
    return Detailed(Ask({.since_ms = kNow,
                         .until_ms = kNow + 12 * kHourMs,
                         .by = UsageQuery::By::kSandbox,
                         .owner = owner}))
        .size();
  };
  EXPECT_LE(detailed("red"), 4U);
  EXPECT_GE(detailed("red"), 2U);
  EXPECT_EQ(detailed("blue"), 10U);
}

TEST_F(LedgerTest, WhatIsTooOldGoes) {
  Open("b0071d00-0000", {.keep_hours = 3});
  for (int hour = 0; hour < 5; ++hour) {
    const std::string id = std::to_string(hour);
    Begin(id, "", kNow + hour * kHourMs);
    ledger->End(id, UsageReading{.cpu_us = 10}, At(kNow + hour * kHourMs + 10));
    Commit(kNow + hour * kHourMs);
  }
  Commit(kNow + 5 * kHourMs);
  EXPECT_EQ(Sum().cpu_us, 30);
  EXPECT_FALSE(Ask().complete);
  EXPECT_TRUE(Ask({.since_ms = kNow + 2 * kHourMs, .until_ms = kNow + 5 * kHourMs}).complete);
}

// Many owners, or many estimates.
TEST_F(LedgerTest, WhatCannotBeFoldedGoesByAge) {
  Open("b0071d00-0000", {.keep_hours = 100, .most_rows = 8});
  for (int hour = 0; hour < 4; ++hour) {
    for (int i = 0; i < 3; ++i) {
      const std::string id = std::to_string(hour) + "-" + std::to_string(i);
      Begin(id, "owner" + std::to_string(i), kNow + hour * kHourMs);
      ledger->End(id, UsageReading{.cpu_us = 10}, At(kNow + hour * kHourMs + 10));
    }
    Commit(kNow + hour * kHourMs);
  }
  Commit(kNow + 4 * kHourMs);
  EXPECT_EQ(Sum().cpu_us, 60);
  EXPECT_FALSE(Ask().complete);
  EXPECT_TRUE(Ask({.since_ms = kNow + 2 * kHourMs, .until_ms = kNow + 5 * kHourMs}).complete);
}

}  // namespace
}  // namespace atl::tenants
