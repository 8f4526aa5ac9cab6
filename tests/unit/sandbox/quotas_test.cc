// Quotas of tenants: what is refused and how it is told, and that what a tenant holds is the sum of
// its records, whatever happens in between.
#include "runtime/sandbox/state/quotas.h"

#include <algorithm>
#include <random>

#include "runtime/sandbox/copies/forks.h"
#include "tests/unit/sandbox/templates_fixture.h"

namespace atl::sandbox {
namespace {

constexpr uint64_t kMiB = 1 << 20;

tenants::Caller By(const std::string& tenant) {
  return {.tenant = tenant, .key_id = tenant, .role = tenants::Role::kDeveloper};
}

TEST(QuotaError, TellsItsFacts) {
  const QuotaRefusal refusal{"memory", "32Gi", "31Gi", "2Gi"};
  const Error error = QuotaError("red", refusal);
  EXPECT_EQ(QuotaRefusalOf(error), refusal);
  EXPECT_EQ(QuotaRefusalOf(Error(error).Wrap("record the new sandbox")), refusal);
  EXPECT_FALSE(QuotaRefusalOf(Error(Code::kResourceExhausted, error.message(), ENOMEM)));
  EXPECT_FALSE(QuotaRefusalOf(Error(Code::kResourceExhausted, "no quota", kByTerms)));
}

TEST(Quota, EachIsCheckedByItself) {
  auto terms = std::make_shared<Terms>();
  terms->tenant = "red";
  terms->max = {.cpu_millis = 2000, .disk_bytes = 10 * kMiB, .volumes = 2, .pools = 1};
  const auto refused = [](const Status& status) {
    const auto refusal = status ? std::nullopt : QuotaRefusalOf(status.error());
    return refusal
               ? refusal->quota + " " + refusal->limit + " " + refusal->used + " " + refusal->asked
               : std::string("fits");
  };
  Owned one{.sandboxes = 1, .cpu_millis = 1500, .memory_bytes = 1, .disk_bytes = kMiB};
  EXPECT_EQ(refused(CheckSandboxQuota(terms, {}, one)), "fits");
  EXPECT_EQ(refused(CheckSandboxQuota(terms, one, one)), "cpu 2 1500m 1500m");
  one.cpu_millis = 0;
  EXPECT_EQ(refused(CheckSandboxQuota(terms, {}, one)), "cpu 2 0 unlimited");
  one.cpu_millis = UINT64_MAX;
  EXPECT_NE(refused(CheckSandboxQuota(terms, {.cpu_millis = 1}, one)), "fits");
  EXPECT_EQ(refused(CheckVolumeQuota(terms, {.volumes = 2}, kMiB)), "volumes 2 2 1");
  EXPECT_EQ(refused(CheckVolumeQuota(terms, {.disk_bytes = 9 * kMiB}, 2 * kMiB)),
            "disk 10Mi 9Mi 2Mi");
  EXPECT_EQ(refused(CheckVolumeQuota(terms, {}, 0)), "disk 10Mi 0 unlimited");
  EXPECT_EQ(refused(CheckPoolQuota(terms, {.pools = 1})), "pools 1 1 1");
  EXPECT_EQ(refused(CheckSnapshotQuota(terms, {.snapshots = 1000})), "fits");
  EXPECT_EQ(refused(CheckPoolQuota(nullptr, {.pools = 1000})), "fits");
}

class QuotaTest : public TemplatesTest {
 protected:
  void Give(const std::string& name, const tenants::Quota& max) {
    tenants::Tenant tenant;
    tenant.name = name;
    tenant.max = max;
    tenants.Replace({tenant});
  }
  std::shared_ptr<Answer> Ask(const tenants::Caller& caller, Wanted wanted = Want()) {
    auto answer = std::make_shared<Answer>();
    sandboxes->orders.Create(caller, std::move(wanted), [answer](Result<Sandbox> result) {
      answer->called = true;
      answer->result = std::move(result);
    });
    loop.Run();
    return answer;
  }
  static Wanted WithMemory(const std::string& memory) {
    Wanted wanted = Want();
    wanted.resource_limits = {{"memory", memory}};
    wanted.timeout_seconds = 60;
    return wanted;
  }
  std::string Running(const tenants::Caller& caller, Wanted wanted = Want()) {
    const auto answer = Ask(caller, std::move(wanted));
    execds.push_back(std::move(spawner.AnswerBuild().control));
    loop.Run();
    EXPECT_TRUE(answer->called && answer->result);
    return answer->result->id;
  }
  static std::string Refusal(const std::shared_ptr<Answer>& answer) {
    if (!answer->called) return "pending";
    if (answer->result) return "made";
    const auto refusal = QuotaRefusalOf(answer->result.error());
    return refusal ? refusal->quota : answer->result.error().message();
  }
};

TEST_F(QuotaTest, ARefusedCreateHasNoEffect) {
  config.check.limits_available.keys = {"memory"};
  Boot({});
  Give("red", {.sandboxes = 2, .memory_bytes = 96 * kMiB});
  Running(By("red"), WithMemory("64Mi"));
  EXPECT_EQ(Refusal(Ask(By("red"), WithMemory("64Mi"))), "memory");
  EXPECT_EQ(sandboxes->registry.size(), 1U);
  EXPECT_TRUE(spawner.builds.empty());
  const std::string second = Running(By("red"), WithMemory("32Mi"));
  EXPECT_EQ(Refusal(Ask(By("red"), WithMemory("16Mi"))), "sandboxes");
  // Another tenant, and the host, have room of their own.
  EXPECT_EQ(Refusal(Ask(kCaller, WithMemory("64Mi"))), "pending");
  spawner.AnswerBuild();
  // The end gives it back, once its processes are gone.
  ASSERT_TRUE(sandboxes->endings.Delete(By("red"), second));
  EXPECT_EQ(Refusal(Ask(By("red"), WithMemory("16Mi"))), "sandboxes");
  spawner.AnswerDestroy();
  EXPECT_EQ(Refusal(Ask(By("red"), WithMemory("16Mi"))), "pending");
}

TEST_F(QuotaTest, AForkCountsAllItsChildren) {
  Boot({});
  Give("red", {.sandboxes = 3});
  const std::string id = Running(By("red"));
  Status made;  // outlives the fork that is answered last
  const auto fork = [&](size_t count) {
    made = {};
    sandboxes->forks.Fork(By("red"), id, {.count = count},
                          [&](const tl::expected<std::vector<Sandbox>, CreateError>& forked) {
                            made = forked ? Status() : Status(Fail(forked.error()));
                          });
    loop.Run();
    return made;
  };
  const Status refused = fork(3);
  ASSERT_FALSE(refused);
  ASSERT_TRUE(QuotaRefusalOf(refused.error()));
  EXPECT_TRUE(spawner.copies.empty());
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 1U);
  fork(2);
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 3U);
  spawner.AnswerCopy(Fail(Code::kInternal, "no"));
  loop.Run();
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 1U);
}

TEST_F(QuotaTest, AMemberOfATemplateIsTheHostsUntilItsClaim) {
  Boot({});
  Give("red", {});
  who = By("red");
  const std::string id = Make(1);
  BuildReady();
  EXPECT_EQ(sandboxes->room.OwnedBy("red"), Owned());
  const auto claimed = Ask(By("red"), Of(id));
  EXPECT_TRUE(spawner.AnswerFreeze().starts_with("thaw "));
  ASSERT_EQ(Refusal(claimed), "made");
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 1U);
}

TEST_F(QuotaTest, NoTemplateRunsProgramsOfATenantWithLimits) {
  Boot({});
  Give("red", {});
  who = By("red");
  TemplateRecord record;
  record.image = "busybox";
  const auto make = [&](const tenants::Caller& caller) {
    const auto made = sandboxes->templates.Create(caller, record);
    if (made) {
      EXPECT_TRUE(sandboxes->templates.Remove(caller, *made));
    }
    return made ? 0 : made.error().error_number();
  };
  const auto view = [&](const std::string& id) {
    return *sandboxes->templates.Find(By("red"), id);
  };
  tenants::Caller narrow = By("red");
  narrow.narrowing =
      std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.images = {"busybox"}});
  EXPECT_EQ(make(narrow), kByTerms);
  const std::string id = Make(1), member = BuildReady();
  // A reload gives it limits.
  tenants::Tenant limits[4];
  limits[0].max = {.sandboxes = 2};
  limits[1].images = {"busybox"};
  limits[2].egress_ceiling = {"*.example.org"};
  limits[3].policy_locked = true;
  for (tenants::Tenant& red : limits) {
    red.name = "red";
    tenants.Replace({red});
    EXPECT_EQ(make(By("red")), kByTerms);
    EXPECT_EQ(make(kCaller), 0) << "the host has no limits";
    EXPECT_NE(Refusal(Ask(By("red"), Of(id))).find("tenant red, which has limits"),
              std::string::npos);
  }
  EXPECT_EQ(view(id).ready, 1U);
  sandboxes->templates.Look();
  EXPECT_EQ(view(id).ready, 0U);
  EXPECT_EQ(spawner.AnswerDestroy(), member);
  loop.Pass(kSecond);
  EXPECT_EQ(view(id).building, 0U);
  EXPECT_NE(view(id).trouble.find("use a pool"), std::string::npos);
}

TEST_F(QuotaTest, APoolHasAnImageThatItsMakerMayUse) {
  config.parked_sandboxes = 8;
  Boot({});
  tenants::Tenant red;
  red.name = "red";
  red.images = {"python"};
  tenants.Replace({red});
  PoolRecord record;
  record.key = "warm";
  record.image = "busybox";
  record.capacity = {1, 1, 0, 10};
  const auto make = [&](const tenants::Caller& caller) {
    const Status made = sandboxes->pools.Create(caller, record);
    return made ? 0 : made.error().error_number();
  };
  EXPECT_EQ(make(By("red")), kByTerms);
  red.images.clear();
  tenants.Replace({red});
  tenants::Caller narrow = By("red");
  narrow.narrowing =
      std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.images = {"python"}});
  EXPECT_EQ(make(narrow), kByTerms);
  EXPECT_EQ(make(By("red")), 0);
  loop.Pass(50'000);
  execds.push_back(std::move(spawner.AnswerBuild().control));
  loop.Run();
  EXPECT_EQ(sandboxes->pools.Parked().size(), 1U);
  // A reload takes the image away.
  red.images = {"python"};
  tenants.Replace({red});
  sandboxes->pools.Look();
  EXPECT_TRUE(sandboxes->pools.Parked().empty());
  loop.Pass(kSecond);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_NE(sandboxes->pools.Find(By("red"), "warm")->trouble.find("may not use"),
            std::string::npos);
}

TEST_F(QuotaTest, ALifetimeHasABound) {
  Boot({});
  Give("red", {.timeout_seconds = 100});
  EXPECT_NE(Refusal(Ask(By("red"))).find("at most 100 s"), std::string::npos);
  Wanted wanted = Want();
  wanted.timeout_seconds = 101;
  EXPECT_NE(Refusal(Ask(By("red"), wanted)).find("at most 100 s"), std::string::npos);
  wanted.timeout_seconds = 100;
  const std::string id = Running(By("red"), wanted);
  loop.Pass(50 * kSecond);
  const auto renew = [&](int64_t ahead_ms) {
    return sandboxes->changes.Renew(By("red"), id, clock.unix_ms + ahead_ms);
  };
  const Status late = renew(100'001);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kPermissionDenied);
  EXPECT_EQ(late.error().error_number(), kByTerms);
  EXPECT_TRUE(renew(100'000));
}

TEST_F(QuotaTest, ImagesPoliciesAndKeysAreBound) {
  Boot({});
  tenants::Tenant red;
  red.name = "red";
  red.images = {"python"};
  red.egress_ceiling = {"*.example.org"};
  tenants.Replace({red});
  EXPECT_NE(Refusal(Ask(By("red"))).find("it may use python:*"), std::string::npos);
  red.images = {"busybox"};
  tenants.Replace({red});
  Wanted wanted = Want();
  const auto allow = [](const char* target) {
    netpolicy::Policy policy;
    policy.rules.push_back({netpolicy::Action::kAllow,
                            target,
                            *netpolicy::ParsePolicyTarget(target),
                            {},
                            netpolicy::Transport::kAny});
    return netpolicy::Share(std::move(policy));
  };
  wanted.spec.network.policy = allow("evil.test");
  EXPECT_NE(Refusal(Ask(By("red"), wanted)).find("it may allow *.example.org"), std::string::npos);
  wanted.spec.network.policy = allow("a.example.org");
  const std::string id = Running(By("red"), wanted);
  const auto set = [&](const char* target) {
    const Status status = sandboxes->changes.SetPolicy(By("red"), id, allow(target));
    return status ? 0 : status.error().error_number();
  };
  EXPECT_EQ(set("evil.test"), kByTerms);
  EXPECT_EQ(set("b.example.org"), 0);
  red.policy_locked = true;
  tenants.Replace({red});
  EXPECT_EQ(set("a.example.org"), kByTerms);
  // The narrowing of a key takes more away.
  tenants::Caller narrow = By("red");
  narrow.narrowing =
      std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.max = {.sandboxes = 1}});
  EXPECT_EQ(Refusal(Ask(narrow)), "sandboxes");
  narrow.narrowing =
      std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.images = {"alpine"}});
  EXPECT_NE(Refusal(Ask(narrow)).find("this key may not use image"), std::string::npos);
  // A tenant that is gone gets nothing new.
  tenants.Replace({});
  EXPECT_NE(Refusal(Ask(By("red"))).find("it may use none"), std::string::npos);
  EXPECT_TRUE(network.ceilings("red"));
  EXPECT_FALSE(network.ceilings(""));
}

// Thousands of events in random order, restarts included. After each, what Room holds for a tenant
// is the sum over the records, no quota is exceeded, and a create is refused exactly when it does
// not fit.
class QuotaHistory : public QuotaTest {
 protected:
  static constexpr size_t kSandboxes = 6;
  static constexpr uint64_t kMemory = 512 * kMiB;

  Owned Sum(const std::string& tenant) const {
    Owned sum;
    for (const auto& [id, sandbox] : sandboxes->registry) {
      if (sandbox.stocked || sandbox.tenant != tenant || !CountsForQuota(sandbox.state)) continue;
      ++sum.sandboxes;
      sum.cpu_millis += sandbox.spec.limits.cpu_millis;
      sum.memory_bytes += sandbox.spec.limits.memory_bytes;
      sum.disk_bytes += sandbox.spec.limits.disk_bytes;
    }
    return sum;
  }
  void Check(const std::string& after) {
    for (const char* tenant : {"red", "blue"}) {
      ASSERT_EQ(sandboxes->room.OwnedBy(tenant), Sum(tenant)) << tenant << " after " << after;
      ASSERT_LE(Sum(tenant).sandboxes, kSandboxes);
      ASSERT_LE(Sum(tenant).memory_bytes, kMemory);
    }
    ASSERT_EQ(sandboxes->room.OwnedBy(""), Owned());
  }
  // Returns a sandbox of a tenant in one of the states that `fits` accepts; empty: none.
  template <typename Fits>
  std::string Any(std::mt19937& random, Fits fits) const {
    std::vector<std::string> ids;
    for (const auto& [id, sandbox] : sandboxes->registry) {
      if (!sandbox.tenant.empty() && fits(sandbox)) ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end());
    return ids.empty() ? "" : ids[random() % ids.size()];
  }
  void Restart() {
    wire::Greeting hello;
    for (const auto& [id, sandbox] : sandboxes->registry) {
      if (IsLive(sandbox.state)) {
        hello.sandboxes.push_back({.id = HostId(sandbox), .slot = sandbox.slot});
      }
    }
    sandboxes.reset();
    spawner.builds.clear();
    spawner.destroys.clear();
    spawner.copies.clear();
    spawner.publishes.clear();
    spawner.freezes.clear();
    Boot(hello);
    import = imports->Begin("new:latest", [] { return std::string();
  });
} void Create(std::mt19937& random) {
  const std::string tenant = random() % 2 ? "red" : "blue";
  const bool large = random() % 2;
  Wanted wanted = WithMemory(large ? "128Mi" : "64Mi");
  if (random() % 8 == 0) wanted.spec.image = "new";
  const Owned before = Sum(tenant);
  const bool fits =
      before.sandboxes < kSandboxes && before.memory_bytes + (large ? 128 : 64) * kMiB <= kMemory;
  const auto answer = Ask(By(tenant), wanted);
  const bool refused =
      answer->called && !answer->result && QuotaRefusalOf(answer->result.error()).has_value();
  ASSERT_EQ(refused, !fits);
  ++(refused ? refusals : creates);
}

PendingImports::Id import{};
size_t creates = 0, refusals = 0;
};  // namespace

TEST_F(QuotaHistory, WhatIsHeldIsTheSumOverTheRecords) {
  config.check.limits_available.keys = {"memory"};
  config.automatic_pools = 2;
  Boot({});
  std::vector<tenants::Tenant> both(2);
  both[0].name = "red";
  both[1].name = "blue";
  for (auto& tenant : both) tenant.max = {.sandboxes = kSandboxes, .memory_bytes = kMemory};
  tenants.Replace(both);
  import = imports->Begin("new:latest", [] { return std::string();
});
std::mt19937 random(20261128);
const auto is_live = [](const Sandbox& s) { return IsLive(s.state); };
for (int i = 0; i < 6000; ++i) {
  std::string event;
  switch (random() % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
      event = "create";
      Create(random);
      break;
    case 4:
    case 5:
    case 6:
      event = "built";
      if (!spawner.builds.empty()) spawner.AnswerBuild();
      break;
    case 7:
      event = "not built";
      if (!spawner.builds.empty()) spawner.AnswerBuild(Fail(Code::kInternal, "no"));
      break;
    case 8: {
      event = "delete";
      const std::string id = Any(random, [](const Sandbox&) { return true; });
      if (!id.empty()) (void)sandboxes->endings.Delete(tenants::Caller::Daemon(), id);
      break;
    }
    case 9:
    case 10:
      event = "destroyed";
      if (!spawner.destroys.empty()) spawner.AnswerDestroy();
      break;
    case 11: {
      event = "exit";
      const std::string id = Any(random, is_live);
      if (!id.empty()) {
        Ended(HostId(*sandboxes->registry.Look(id)), Exit(static_cast<int>(random() % 2)));
      }
      break;
    }
    case 12: {
      event = "fork";
      const std::string id = Any(random, is_live);
      if (id.empty()) break;
      const std::string tenant = sandboxes->registry.Look(id)->tenant;
      sandboxes->forks.Fork(By(tenant), id, {.count = 1 + random() % 3},
                            [](const tl::expected<std::vector<Sandbox>, CreateError>&) {});
      break;
    }
    case 13:
      event = "copied";
      if (!spawner.copies.empty()) {
        random() % 3 ? spawner.AnswerCopy() : spawner.AnswerCopy(Fail(Code::kInternal, "no"));
      }
      if (!spawner.publishes.empty()) spawner.AnswerPublish();
      break;
    case 14:
      event = "time";
      loop.Pass(random() % 20 == 0 ? 61 * kSecond : 50'000);
      break;
    default:
      if (random() % 8 == 0) {
        event = "restart";
        Restart();
      } else if (random() % 4 == 0) {
        event = "import failed";
        imports->End(import, Fail(Code::kInvalidArgument, "no archive"));
          import = imports->Begin("new:latest", [] { return std::string();
      });
  }
}
loop.Run();
Check(event);
if (HasFatalFailure()) return;
}  // namespace atl::sandbox
EXPECT_GT(creates, 300U);
EXPECT_GT(refusals, 50U);
// Everything ends, and nothing is held.
for (int round = 0; round < 10; ++round) {
  while (!spawner.builds.empty()) spawner.AnswerBuild(Fail(Code::kInternal, "no"));
  while (!spawner.copies.empty()) spawner.AnswerCopy(Fail(Code::kInternal, "no"));
  std::vector<std::string> ids;
  for (const auto& [id, sandbox] : sandboxes->registry) ids.push_back(id);
  for (const std::string& id : ids) {
    (void)sandboxes->endings.Delete(tenants::Caller::Daemon(), id);
  }
  while (!spawner.destroys.empty()) spawner.AnswerDestroy();
  loop.Run();
}
EXPECT_EQ(sandboxes->room.OwnedBy("red"), Owned());
EXPECT_EQ(sandboxes->room.OwnedBy("blue"), Owned());
}

}  // namespace
}  // namespace atl::sandbox
