#include "runtime/sandbox/recovery/recovery.h"

#include <gtest/gtest.h>

namespace atl::sandbox {
namespace {

Sandbox Make(const std::string& id, State state, uint32_t slot) {
  Sandbox s;
  s.id = id;
  s.state = state;
  s.slot = slot;
  return s;
}

wire::SandboxRecord Present(const std::string& id, uint32_t slot, bool exited = false) {
  wire::SandboxRecord record;
  record.id = id;
  record.slot = slot;
  record.exited = exited;
  return record;
}

std::vector<std::string> Ids(const std::vector<wire::SandboxRecord>& records) {
  std::vector<std::string> ids;
  for (const auto& record : records) ids.push_back(record.id);
  return ids;
}

using Strings = std::vector<std::string>;

TEST(Recovery, EveryStatePresentAndAbsent) {
  const std::vector<Sandbox> sandboxes = {
      Make("running-here", State::kRunning, 1),   Make("running-gone", State::kRunning, 2),
      Make("running-ended", State::kRunning, 3),  Make("stopping-here", State::kStopping, 4),
      Make("stopping-gone", State::kStopping, 5), Make("pending-queued", State::kQueued, 0),
      Make("pending-cut", State::kBuilding, 6),   Make("failed-clean", State::kFailed, 0),
      Make("failed-holding", State::kFailing, 7), Make("over-present", State::kTerminated, 0),
      Make("over-clean", State::kTerminated, 0),  Make("running-still", State::kRunning, 10),
      Make("paused-still", State::kPaused, 11),   Make("paused-running", State::kPaused, 12),
      Make("pausing-still", State::kPausing, 13),
  };
  std::vector<const Sandbox*> recorded;
  for (const Sandbox& s : sandboxes) recorded.push_back(&s);
  wire::Greeting hello;
  hello.sandboxes = {Present("running-here", 1),    Present("running-ended", 3, true),
                     Present("stopping-here", 4),   Present("pending-cut", 6),
                     Present("over-present", 8),    Present("stranger", 9),
                     Present("running-still", 10),  Present("paused-still", 11),
                     Present("paused-running", 12), Present("pausing-still", 13)};
  hello.frozen_slots = {10, 11, 13};
  const RecoveryPlan plan = PlanRecovery(recorded, hello);
  EXPECT_EQ(plan.adopted, (Strings{"running-here", "running-still", "paused-still",
                                   "paused-running", "pausing-still"}));
  EXPECT_EQ(plan.frozen, Strings{"running-still"});
  EXPECT_EQ(plan.thawed, Strings{"paused-running"});
  EXPECT_EQ(plan.vanished, Strings{"running-gone"});
  EXPECT_EQ(Ids(plan.exited), Strings{"running-ended"});
  EXPECT_EQ(plan.unfinished,
            (Strings{"stopping-here", "stopping-gone", "failed-holding", "over-present"}));
  EXPECT_EQ(Ids(plan.orphans), Strings{"stranger"});
  EXPECT_EQ(plan.live_slots, (std::vector<uint32_t>{1, 3, 4, 6, 8, 9, 10, 11, 12, 13}));
}

// The spawner knows a rolled-back sandbox by its host id. "here" was being built, "waiting" had not
// had its turn.
TEST(Recovery, OneThatIsRolledBack) {
  std::vector<Sandbox> sandboxes;
  for (const char* id : {"here", "ended", "gone", "waiting", "running"}) {
    sandboxes.push_back(Make(id, State::kReplacing, 1 + static_cast<uint32_t>(sandboxes.size())));
    sandboxes.back().host_id = "host-" + std::string(id);
  }
  sandboxes[3].slot = 0;
  sandboxes[4].state = State::kRunning;
  std::vector<const Sandbox*> recorded;
  for (const Sandbox& s : sandboxes) recorded.push_back(&s);
  wire::Greeting hello;
  hello.sandboxes = {Present("host-here", 1), Present("host-ended", 2, true),
                     Present("host-running", 5), Present("running", 6)};
  const RecoveryPlan plan = PlanRecovery(recorded, hello);
  EXPECT_EQ(plan.adopted, Strings{"running"});
  EXPECT_EQ(plan.vanished, Strings{"gone"});
  EXPECT_EQ(Ids(plan.exited), Strings{"host-ended"});
  EXPECT_TRUE(plan.unfinished.empty());
  // The sandbox from before the rollback.
  EXPECT_EQ(Ids(plan.orphans), Strings{"running"});
}

TEST(Recovery, NothingAndNothing) {
  const RecoveryPlan plan = PlanRecovery({}, {});
  EXPECT_TRUE(plan.adopted.empty() && plan.orphans.empty() && plan.live_slots.empty());
}

}  // namespace
}  // namespace atl::sandbox
