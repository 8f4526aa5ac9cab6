// The meter between the loop, its thread and the ledger, while the wall clock is stepped.
#include "runtime/sandbox/usage/meter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

constexpr uint64_t kMib = 1 << 20;
constexpr int64_t kHour = tenants::kHourMs;

// The meter's thread reads it while the test moves it.
class SharedClock final : public Clock {
 public:
  int64_t UnixMillis() const override { return boot_ms_ + offset_ms_; }
  int64_t BootMicros() const override { return boot_ms_ * 1000; }
  void Pass(int64_t ms) { boot_ms_ += ms; }
  void Step(int64_t ms) { offset_ms_ += ms; }

 private:
  std::atomic<int64_t> boot_ms_ = 7 * kHour;
  std::atomic<int64_t> offset_ms_ = 1'700'000'000'000;
};

// Takes callbacks from the meter's thread. Timers do not fire.
class PostedLoop final : public Loop {
 public:
  Id Watch(int, uint32_t, FdCallback) override { return 0; }
  void Modify(Id, uint32_t) override {}
  void Unwatch(Id) override {}
  Id After(int64_t, Callback) override { return ++last_; }
  void Cancel(Id) override {}
  void Post(Callback callback) override {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(callback));
    }
    changed_.notify_one();
  }
  void RunBlocking(Callback, Callback) override {}

  bool RunUntil(const std::function<bool()>& ready) {
    while (!ready()) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, std::chrono::seconds(30), [this] { return !posted_.empty(); })) {
        return false;
      }
      const Callback callback = std::move(posted_.front());
      posted_.pop_front();
      lock.unlock();
      callback();
    }
    return true;
  }

 private:
  Id last_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Callback> posted_;
};

// Holds up the meter's thread in the middle of a sample, before it asks for the time.
class Gate {
 public:
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void Open() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = false;
    }
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    at_it_ = closed_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    at_it_ = false;
  }
  void AwaitThread() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return at_it_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool at_it_ = false;
};

class MeterTest : public testing::TestWithParam<int64_t> {
 protected:
  MeterTest() {
    auto ledger = tenants::Ledger::Open(":memory:", "boot", {}, clock.Now());
    EXPECT_TRUE(ledger) << ledger.error().message();
    spawner.on_message = [this](const wire::Message& message) {
      const auto* settles = std::get_if<wire::SettleEnds>(&message);
      if (settles != nullptr) settled += static_cast<int>(settles->ids.size());
    };
    meter.emplace(
        loop, clock, spawner, registry,
        Meter::Sources{.ledger = std::move(*ledger),
                       .read = [](uint32_t) -> Result<cgroup::Meters> { return Counters(); },
                       .read_host_cpu = []() -> Result<uint64_t> { return 1; },
                       .read_links =
                           [this] {
                             gate.Pass();
                             return std::map<uint32_t, Meter::LinkBytes>();
                           },
                       .prepared_cpu = [](uint32_t) { return uint64_t{0}; },
                       .snapshot_bytes =
                           [] {
                             return std::map<std::string, uint64_t>{{"red", kMib}};
                           }});
  }
  ~MeterTest() override { gate.Open(); }

  static cgroup::Meters Counters() { return {.cpu_micros = 1, .memory_bytes = 2 * kMib}; }
  Sandbox& AddSandbox() {
    Sandbox sandbox;
    sandbox.id = kId;
    sandbox.tenant = "red";
    sandbox.state = State::kRunning;
    sandbox.slot = 1;
    sandbox.spec.limits.cpu_millis = 500;
    sandbox.spec.limits.memory_bytes = 64 * kMib;
    return registry.Add(std::move(sandbox));
  }
  void Checkpoint() {
    bool done = false;
    meter->Checkpoint([&done] { done = true; });
    ASSERT_TRUE(loop.RunUntil([&done] { return done; }));
  }
  // Ends the sandbox as the spawner reports it, and has the ledger store it.
  void Destroy(Sandbox& sandbox, const Instant& at) {
    const State before = std::exchange(sandbox.state, State::kStopping);
    meter->OnTransition(sandbox, before);
    wire::EndReading end;
    end.read = true;
    end.meters = Counters();
    end.ended_ms = at.unix_ms;
    end.ended_boot_ms = at.boot_ms;
    meter->OnDestroyed(kId, end);
    ASSERT_TRUE(loop.RunUntil([this] { return settled == 1; }));
  }
  tenants::Amounts Sum() {
    std::optional<tenants::Amounts> sum;
    meter->Query({.since_ms = 0, .until_ms = clock.UnixMillis() + 100'000 * kHour},
                 [&sum](const Result<tenants::UsageAnswer>& answer) {
                   ASSERT_TRUE(answer) << answer.error().message();
                   sum.emplace();
                   EXPECT_TRUE(answer->complete);
                   for (const tenants::UsageRow& row : answer->rows) {
                     for (const tenants::AmountField& field : tenants::kAmounts) {
                       *sum.*field.value += row.amounts.*field.value;
                     }
                   }
                 });
    EXPECT_TRUE(loop.RunUntil([&sum] { return sum.has_value(); }));
    return sum.value_or(tenants::Amounts());
  }

  SharedClock clock;
  PostedLoop loop;
  FakeClock unused_clock;
  FakeLoop unused_loop{unused_clock};
  FakeSpawner spawner{unused_loop};
  Registry registry{"/run/atoll", 0};
  Gate gate;
  int settled = 0;
  std::optional<Meter> meter;
};

INSTANTIATE_TEST_SUITE_P(, MeterTest, testing::Values(0, 5 * kHour, -5 * kHour, 3'000, -3'000));

TEST_P(MeterTest, AStepOfTheWallClockBillsNothing) {
  Sandbox& sandbox = AddSandbox();
  ASSERT_TRUE(meter->Start());
  Checkpoint();
  clock.Pass(10'000);
  Checkpoint();
  clock.Pass(4'000);
  clock.Step(GetParam());
  clock.Pass(6'000);
  Checkpoint();
  EXPECT_EQ(meter->CheckpointAge(), 0);
  Destroy(sandbox, clock.Now());
  const tenants::Amounts sum = Sum();
  EXPECT_EQ(sum.cpu_reserved_us, 500 * 20'000);
  EXPECT_EQ(sum.memory_reserved_kib_ms, 64 * 1024 * 20'000);
  EXPECT_EQ(sum.memory_kib_ms, 2 * 1024 * 20'000);
  EXPECT_EQ(sum.snapshot_kib_ms, 1024 * 20'000);
}

// The loop has taken a time, the clock is stepped, the thread takes a time for its sample and then
// meets the loop's job.
TEST_P(MeterTest, AJobFromBeforeTheStepIsAppliedAfterIt) {
  Sandbox& sandbox = AddSandbox();
  ASSERT_TRUE(meter->Start());
  Checkpoint();
  gate.Close();
  bool done = false;
  meter->Checkpoint([&done] { done = true; });
  gate.AwaitThread();
  clock.Pass(10'000);
  const State before = std::exchange(sandbox.state, State::kPaused);
  meter->OnTransition(sandbox, before);
  clock.Step(GetParam());
  gate.Open();
  ASSERT_TRUE(loop.RunUntil([&done] { return done; }));
  Checkpoint();
  clock.Pass(10'000);
  Checkpoint();
  EXPECT_EQ(Sum().cpu_reserved_us, 500 * 10'000) << "while it ran";
  EXPECT_EQ(Sum().memory_reserved_kib_ms, 64 * 1024 * 20'000);
  sandbox.state = State::kRunning;
  meter->OnTransition(sandbox, State::kPaused);
  clock.Pass(3'000);
  const Instant ended = clock.Now();
  // The spawner's answer crosses a step as well.
  clock.Step(GetParam());
  Destroy(sandbox, ended);
  EXPECT_EQ(Sum().cpu_reserved_us, 500 * 13'000);
  EXPECT_EQ(Sum().memory_reserved_kib_ms, 64 * 1024 * 23'000);
  EXPECT_EQ(Sum().memory_kib_ms, 2 * 1024 * 23'000);
}

// Spawners of an older release tell the wall clock's time only.
TEST_P(MeterTest, AnEndWithoutTheBootClock) {
  Sandbox& sandbox = AddSandbox();
  clock.Step(GetParam());
  ASSERT_TRUE(meter->Start());
  Checkpoint();
  clock.Pass(5'000);
  Destroy(sandbox, {clock.UnixMillis(), 0});
  EXPECT_EQ(Sum().cpu_reserved_us, 500 * 5'000);
}

TEST_P(MeterTest, TheAgeOfTheCheckpoint) {
  gate.Close();
  ASSERT_TRUE(meter->Start());
  gate.AwaitThread();
  clock.Pass(20'000);
  clock.Step(GetParam());
  EXPECT_EQ(meter->CheckpointAge(), 20) << "it has never been stored";
  gate.Open();
  Checkpoint();
  clock.Pass(7'000);
  clock.Step(GetParam());
  EXPECT_EQ(meter->CheckpointAge(), 7);
}

}  // namespace
}  // namespace atl::sandbox
