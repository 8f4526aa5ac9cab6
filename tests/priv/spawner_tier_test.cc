// Sandboxes of other tiers than namespaces. A request that a tier refuses has no effect. A spawner
// without the tier of a sandbox keeps the sandbox until a client destroys it.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/wire/spawner.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

// Sets the program for all spawners that the test starts from now on (refusing_tier.cc).
void UseTestTiers() {
  const char* program = std::getenv("ATOLL_REFUSING_SPAWNER");
  ASSERT_NE(program, nullptr);
  ::setenv("ATOLL_SPAWNER", program, 1);
}

// Returns the slots that have a directory in `directory`.
std::set<std::string> Slots(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_directory() && entry.path().filename() != "unpack") {
      names.insert(entry.path().filename());
    }
  }
  return names;
}

struct Outcome {
  std::string code = "none", message;
  bool operator==(const Outcome&) const = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << outcome.code << ": " << outcome.message;
}

template <typename Message>
Outcome Ask(SpawnerFixture& spawner, Message message) {
  Outcome outcome;
  spawner.client().Ask(std::move(message), [&](const auto& answer) {
    outcome.code = answer ? "done" : CodeName(answer.error().code());
    if (!answer) outcome.message = answer.error().message();
  });
  EXPECT_TRUE(spawner.loop().RunUntil([&] { return outcome.code != "none"; }));
  return outcome;
}

Outcome Build(SpawnerFixture& spawner, const std::string& tier, uint32_t slot) {
  wire::Plan plan = SpawnerFixture::PlanFor(slot);
  plan.tier = tier;
  return Ask(spawner, wire::Build{plan});
}

// Sends a live sandbox every request that a tier may refuse.
std::map<std::string, Outcome> AskAll(SpawnerFixture& spawner, const std::string& id) {
  wire::MakeSession session{.id = id};
  session.spec.number = 1;
  auto control = sys::UnixPair(SOCK_STREAM), connections = sys::UnixPair(SOCK_STREAM);
  auto pipe = sys::MakePipe();
  EXPECT_TRUE(control && connections && pipe);
  session.control = std::move(control->b);
  session.connections = std::move(connections->b);
  return {{"limits", Ask(spawner, wire::ChangeLimits{id, SpawnerFixture::DefaultLimits()})},
          {"pause", Ask(spawner, wire::Freeze{id, true})},
          {"resume", Ask(spawner, wire::Freeze{id, false})},
          {"reclaim", Ask(spawner, wire::Reclaim{id})},
          {"copy", Ask(spawner, wire::CopyUpper{id, 7, 1 << 20})},
          {"diff", Ask(spawner, wire::DiffUpper{id, {}, false, std::move(pipe->write)})},
          {"session", Ask(spawner, std::move(session))}};
}

PRIV_TEST(SpawnerTier, WhatATierRefusesLeavesNothing) {
  UseTestTiers();
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.hello().tiers, (std::vector<std::string>{"namespace", "bare"}));
  const std::string uppers = spawner.data_dir() + "/store/fs/uppers";
  ASSERT_TRUE(spawner.Prepare(1));
  EXPECT_EQ(Build(spawner, "refusing", 1),
            (Outcome{"unimplemented", "step check: the tier 'refusing' cannot build a sandbox"}));
  EXPECT_EQ(Build(spawner, "microvm", 1),
            (Outcome{"unimplemented", "step check: this spawner has no tier 'microvm'"}));
  for (const char* name : {"", "Refusing", "../x", "a-name-that-is-longer-than-it-may-be"}) {
    EXPECT_EQ(Build(spawner, name, 1).code, "invalid_argument") << name;
    EXPECT_EQ(CodeName(spawner.TryPrepare(2, name).error().code()), "invalid_argument") << name;
  }
  // The slot was prepared by another tier. It stays in stock.
  EXPECT_EQ(Build(spawner, "bare", 1).code, "failed_precondition");
  const Status prepared = spawner.TryPrepare(2, "refusing");
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().message(), "the tier 'refusing' cannot prepare a slot on this host");
  EXPECT_EQ(CodeName(prepared.error().code()), "unimplemented");

  EXPECT_EQ(Slots(spawner.hello().cgroup_path), std::set<std::string>{"s1"});
  EXPECT_EQ(Slots(uppers), std::set<std::string>{"s1"});
  EXPECT_TRUE(fs::is_empty(spawner.run_dir() + "/spawner/records"));
  EXPECT_TRUE(spawner.Build(SpawnerFixture::PlanFor(1)));
}

// Another spawner program has left a sandbox of a tier that this spawner does not have.
PRIV_TEST(SpawnerTier, ASandboxOfAnUnknownTierIsKept) {
  const std::string product = std::getenv("ATOLL_SPAWNER");
  UseTestTiers();
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.TryPrepare(1, "bare"));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.tier = "bare";
  const auto sandbox = spawner.Build(plan);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  for (const auto& [verb, outcome] : AskAll(spawner, plan.id)) {
    EXPECT_EQ(outcome.code, "unimplemented") << verb;
    EXPECT_TRUE(outcome.message.starts_with("the tier 'bare' cannot ")) << outcome.message;
  }
  const std::string record = spawner.run_dir() + "/spawner/records/" + plan.id;
  const std::string group = spawner.hello().cgroup_path + "/s1";

  spawner.KillProcess();
  ::setenv("ATOLL_SPAWNER", product.c_str(), 1);
  for (const bool ended : {false, true}) {
    spawner.StartProcess();
    spawner.Connect();
    EXPECT_EQ(spawner.hello().tiers, std::vector<std::string>{"namespace"});
    ASSERT_EQ(spawner.hello().sandboxes.size(), 1u);
    EXPECT_EQ(spawner.hello().sandboxes[0].exited, ended);
    EXPECT_TRUE(fs::exists(record) && fs::exists(group));
    for (const auto& [verb, outcome] : AskAll(spawner, plan.id)) {
      EXPECT_EQ(outcome, (Outcome{"unimplemented", "this spawner has no tier 'bare'"})) << verb;
    }
    if (ended) break;
    // The spawner watches its first process like any other. The record of its end keeps the tier.
    SpawnerFixture::Claim(*sandbox, "echo alive");
    EXPECT_EQ(SpawnerFixture::ReadToEnd(sandbox->control.get()), "alive\n");
    ASSERT_TRUE(spawner.loop().RunUntil([&] { return !spawner.exits.empty(); }));
    spawner.KillProcess();
  }
  EXPECT_TRUE(spawner.Destroy(plan.id));
  EXPECT_FALSE(fs::exists(record) || fs::exists(group));
  EXPECT_EQ(Slots(spawner.data_dir() + "/store/fs/uppers"), std::set<std::string>{});
  EXPECT_EQ(spawner.Run("echo again"), "again\n");
}

}  // namespace
}  // namespace atl::priv
