// Quotas of tenants: what is refused and how it is told, and that what a tenant holds is the sum of
// its records, whatever happens in between.
#include "runtime/sandbox/state/quotas.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

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
  // Adds the tenant, or gives it another quota.
  void Give(const std::string& name, const tenants::Quota& max) {
    given[name].name = name;
    given[name].max = max;
    std::vector<tenants::Tenant> all;
    for (const auto& [known, tenant] : given) all.push_back(tenant);
    tenants.Replace(all);
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

  std::map<std::string, tenants::Tenant> given;
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

TEST_F(QuotaTest, AVolumeCountsHoweverItIsMade) {
  Boot({});
  Give("red", {.volumes = 1});
  const auto make = [&](const tenants::Caller& caller, const std::string& name) {
    Status made = Fail(Code::kInternal, "pending");
    volumes->Create(caller, name, 0, [&](const Result<Volumes::View>& view) {
      made = view ? Status() : Status(Fail(view.error()));
    });
    if (!spawner.volume_calls.empty()) spawner.AnswerVolume();
    return made ? "made" : QuotaRefusalOf(made.error()) ? "refused" : made.error().message();
  };
  const auto mounting = [](const std::string& name) {
    Wanted wanted = Want();
    VolumeMount mount;
    mount.volume.source = name;
    mount.volume.target = "/data";
    mount.create_if_missing = true;
    wanted.mounts = {mount};
    wanted.idempotency_key = "k";
    return wanted;
  };
  EXPECT_EQ(make(By("red"), "one"), "made");
  EXPECT_EQ(make(By("red"), "two"), "refused");
  EXPECT_EQ(make(By("blue"), "one"), "made");
  EXPECT_EQ(Refusal(Ask(By("red"), mounting("two"))), "volumes");
  EXPECT_EQ(sandboxes->registry.size(), 0U);
  EXPECT_TRUE(spawner.volume_calls.empty());
  EXPECT_FALSE(volumes->Find(By("red"), "two"));
  // The record counts after a restart, until the volume is gone.
  Boot({});
  EXPECT_EQ(make(By("red"), "two"), "refused");
  ASSERT_TRUE(volumes->Remove(By("red"), "one"));
  EXPECT_EQ(Refusal(Ask(By("red"), mounting("two"))), "volumes");
  EXPECT_EQ(spawner.AnswerVolume(), "remove red.one");
  EXPECT_EQ(make(By("red"), "two"), "made");
  ASSERT_TRUE(volumes->Remove(By("red"), "two"));
  spawner.AnswerVolume();
  // The refusal has left the key of the request free.
  const auto made = Ask(By("red"), mounting("three"));
  EXPECT_EQ(spawner.AnswerVolume(), "make red.three");
  loop.Run();
  spawner.AnswerBuild();
  EXPECT_EQ(Refusal(made), "made");
  // A key that is narrower than its tenant is so for both ways, too.
  Give("red", {.volumes = 5});
  tenants::Caller narrow = By("red");
  narrow.narrowing =
      std::make_shared<const tenants::Narrowing>(tenants::Narrowing{.max = {.volumes = 1}});
  EXPECT_EQ(make(narrow, "four"), "refused");
  Wanted fourth = mounting("four");
  fourth.idempotency_key.clear();
  EXPECT_EQ(Refusal(Ask(narrow, fourth)), "volumes");
  EXPECT_EQ(make(By("red"), "four"), "made");
}

TEST_F(QuotaTest, SnapshotsAndPoolsCount) {
  Boot({});
  Give("red", {.snapshots = 1, .pools = 1});
  Give("blue", {});
  const std::string id = Running(By("red"));
  const auto snapshot = [&](const tenants::Caller& caller) {
    const auto taken = sandboxes->copies.TakeSnapshot(caller, id, "s");
    if (!taken) return QuotaRefusalOf(taken.error()) ? std::string("refused") : "failed";
    spawner.AnswerCopy();
    spawner.AnswerPublish();
    loop.Run();
    return taken->id;
  };
  const auto make_pool = [&](const std::string& tenant, const std::string& name) {
    const PoolRecord record{.key = name, .image = "busybox", .capacity = {1, 1, 0, 1}};
    const Status made = sandboxes->pools.Create(By(tenant), record);
    return made ? "made" : QuotaRefusalOf(made.error()) ? "refused" : made.error().message();
  };
  const std::string first = snapshot(By("red"));
  EXPECT_EQ(make_pool("red", "one"), "made");
  const auto refused = [&] {
    EXPECT_EQ(snapshot(By("red")), "refused");
    // The snapshot would be the tenant's, whoever takes it.
    EXPECT_EQ(snapshot(tenants::Caller::Daemon()), "refused");
    EXPECT_TRUE(spawner.copies.empty());
    EXPECT_EQ(snapshots->All(By("red")).size(), 1U);
    EXPECT_EQ(make_pool("red", "three"), "refused");
    EXPECT_EQ(sandboxes->room.OwnedBy("red").snapshots, 1U);
    EXPECT_EQ(sandboxes->room.OwnedBy("red").pools, 1U);
  };
  refused();
  EXPECT_EQ(make_pool("blue", "two"), "made");
  EXPECT_EQ(sandboxes->room.OwnedBy("blue").pools, 1U);
  ASSERT_TRUE(sandboxes->copies.RemoveSnapshot(By("red"), first));
  ASSERT_TRUE(sandboxes->pools.Remove(By("red"), "one"));
  EXPECT_EQ(snapshot(By("red")).size(), first.size());
  EXPECT_EQ(make_pool("red", "two"), "made");
  refused();
}

TEST_F(QuotaTest, GpusCountBeforeAnyIsChosen) {
  config.check.devices = {{"0", {}}, {"1", {}}, {"2", {}}};
  Boot({});
  Give("red", {.gpus = 2});
  Give("blue", {});
  const auto gpus = [](const std::string& count) {
    Wanted wanted = Want();
    wanted.resource_limits["gpu"] = count;
    return wanted;
  };
  EXPECT_EQ(Refusal(Ask(By("red"), gpus("3"))), "gpus");
  const std::string id = Running(By("red"), gpus("1"));
  EXPECT_EQ(sandboxes->room.OwnedBy("red").gpus, 1U);
  EXPECT_EQ(Refusal(Ask(By("red"), gpus("2"))), "gpus");
  // A sandbox without a GPU asks for none.
  Running(By("red"));
  Running(By("blue"), gpus("2"));
  // The quota comes before what others have left. A tenant is not told how much that is.
  EXPECT_EQ(Refusal(Ask(By("red"), gpus("2"))), "gpus");
  const std::string refusal = Refusal(Ask(By("red"), gpus("1")));
  EXPECT_NE(refusal.find("this host has not enough free GPUs"), std::string::npos) << refusal;
  EXPECT_EQ(refusal.find_first_of("0123456789", refusal.find(':')), std::string::npos) << refusal;
  EXPECT_NE(Refusal(Ask(kCaller, gpus("1"))).find("0 of 3 GPUs"), std::string::npos);
  // A fork asks for the parent's number once more.
  Give("red", {.gpus = 1});
  const auto fork = [&] {
    std::string refused = "pending";
    sandboxes->forks.Fork(By("red"), id, {.count = 1},
                          [&](const tl::expected<std::vector<Sandbox>, CreateError>& forked) {
                            const auto quota =
                                forked ? std::nullopt : QuotaRefusalOf(forked.error());
                            refused = quota ? quota->quota : "other";
                          });
    return refused;
  };
  EXPECT_EQ(fork(), "gpus");
  // The records count after a restart.
  wire::Greeting hello;
  for (const auto& [each, sandbox] : sandboxes->registry) {
    hello.sandboxes.push_back({.id = HostId(sandbox), .slot = sandbox.slot});
  }
  Boot(hello);
  EXPECT_EQ(sandboxes->room.OwnedBy("red").gpus, 1U);
  EXPECT_EQ(Refusal(Ask(By("red"), gpus("1"))), "gpus");
  ASSERT_TRUE(sandboxes->endings.Delete(By("red"), id));
  spawner.AnswerDestroy();
  EXPECT_EQ(sandboxes->room.OwnedBy("red").gpus, 0U);
  Running(By("red"), gpus("1"));
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
  const auto told = QuotaRefusalOf(refused.error());
  ASSERT_TRUE(told);
  EXPECT_EQ(told->used + " and " + told->asked, "1 and 3");
  EXPECT_TRUE(spawner.copies.empty());
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 1U);
  fork(2);
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 3U);
  spawner.AnswerCopy(Fail(Code::kInternal, "no"));
  loop.Run();
  EXPECT_EQ(sandboxes->room.OwnedBy("red").sandboxes, 1U);
}

TEST_F(QuotaTest, AMemberOfATemplateCountsFromItsBuildAndOnce) {
  Boot({});
  Give("red", {.sandboxes = 2});
  who = By("red");
  const auto owned = [this] { return sandboxes->room.OwnedBy("red").sandboxes; };
  const auto view = [this](const std::string& id) {
    return *sandboxes->templates.Find(By("red"), id);
  };
  TemplateRecord record;
  record.image = "busybox";
  record.stock = 3;
  const auto larger = sandboxes->templates.Create(who, record);
  ASSERT_FALSE(larger);
  EXPECT_EQ(QuotaRefusalOf(larger.error()), (QuotaRefusal{"sandboxes", "2", "0", "3"}));
  const std::string id = Make(1), member = BuildReady();
  EXPECT_EQ(owned(), 1U);
  // The restart counts it again.
  wire::Greeting hello;
  const uint32_t slot = sandboxes->registry.Look(member)->slot;
  hello.sandboxes.push_back({.id = member, .slot = slot});
  hello.frozen_slots.push_back(slot);
  Boot(hello);
  EXPECT_EQ(owned(), 1U);
  EXPECT_EQ(view(id).ready, 1U);
  const auto claim = [&] {
    const auto claimed = Ask(By("red"), Of(id));
    EXPECT_EQ(Refusal(claimed), "pending");
    EXPECT_EQ(spawner.AnswerFreeze().substr(0, 5), "thaw ");
    EXPECT_EQ(Refusal(claimed), "made");
    return claimed->result ? claimed->result->id : "";
  };
  const std::string first = claim();
  EXPECT_EQ(owned(), 1U);
  BuildReady();
  EXPECT_EQ(owned(), 2U);
  // A sandbox of another kind finds no room, and a claim needs none.
  EXPECT_EQ(Refusal(Ask(By("red"))), "sandboxes");
  claim();
  EXPECT_EQ(owned(), 2U);
  // The stock is not filled beyond the quota, and a create does not wait for it.
  loop.Pass(kSecond);
  EXPECT_TRUE(spawner.builds.empty());
  EXPECT_EQ(view(id).building, 0U);
  EXPECT_NE(view(id).trouble.find("sandboxes quota of tenant red is 2"), std::string::npos);
  loop.Pass(60 * kSecond);
  EXPECT_EQ(Refusal(Ask(By("red"), Of(id))), "sandboxes");
  ASSERT_TRUE(sandboxes->endings.Delete(By("red"), first));
  spawner.AnswerDestroy();
  EXPECT_EQ(owned(), 1U);
  loop.Pass(60 * kSecond);
  BuildReady();
  EXPECT_EQ(owned(), 2U);
  // A member that is disposed of counts until it is gone.
  ASSERT_TRUE(sandboxes->templates.Remove(By("red"), id));
  EXPECT_EQ(owned(), 2U);
  spawner.AnswerDestroy();
  EXPECT_EQ(owned(), 1U);
}

TEST_F(QuotaTest, ATemplateHasTheTermsOfItsTenantAndKey) {
  Boot({});
  Give("red", {});
  who = By("red");
  TemplateRecord record;
  record.image = "busybox";
  record.stock = 2;
  const auto make = [&](const tenants::Caller& caller) {
    const auto made = sandboxes->templates.Create(caller, record);
    if (made) {
      EXPECT_TRUE(sandboxes->templates.Remove(caller, *made));
    }
    return made ? 0 : made.error().error_number();
  };
  tenants::Caller narrow = By("red");
  const auto narrow_to = [&narrow](tenants::Narrowing to) {
    narrow.narrowing = std::make_shared<const tenants::Narrowing>(std::move(to));
  };
  narrow_to({.images = {"python"}});
  EXPECT_EQ(make(narrow), kByTerms);
  narrow_to({.max = {.sandboxes = 1}});
  EXPECT_EQ(make(narrow), kByTerms);
  narrow_to({.max = {.sandboxes = 2}});
  EXPECT_EQ(make(narrow), 0);
  EXPECT_EQ(make(By("red")), 0);
  const std::string id = Make(1), member = BuildReady();
  // The claim is checked, too.
  narrow_to({.images = {"python"}});
  EXPECT_NE(Refusal(Ask(narrow, Of(id))).find("this key may not use image"), std::string::npos);
  EXPECT_EQ(sandboxes->templates.Find(By("red"), id)->ready, 1U);
  // A reload takes the image away.
  tenants::Tenant red;
  red.name = "red";
  red.images = {"python"};
  tenants.Replace({red});
  EXPECT_EQ(make(By("red")), kByTerms);
  EXPECT_EQ(make(kCaller), 0) << "the host has no limits";
  sandboxes->templates.Look();
  EXPECT_EQ(spawner.AnswerDestroy(), member);
  loop.Pass(kSecond);
  const auto view = *sandboxes->templates.Find(By("red"), id);
  EXPECT_EQ(view.ready + view.building, 0U);
  EXPECT_NE(view.trouble.find("may not use image"), std::string::npos) << view.trouble;
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

// Tens of creates that each second brings from a tenant, and the one of another. Turns are counted,
// not time.
TEST_F(QuotaTest, AFloodOfOneTenantDelaysAnotherByOneBuildAtMost) {
  build_queue = 64;
  Boot({});
  std::vector<tenants::Tenant> both(2);
  both[0].name = "flood";
  both[1].name = "quiet";
  tenants.Replace(both);
  const auto owner_of = [this](const std::string& build) {
    return sandboxes->registry.Look(build)->tenant;
  };
  size_t refused = 0;
  for (int second = 0; second < 20; ++second) {
    for (int i = 0; i < 100; ++i) refused += Ask(By("flood"))->called;
    std::set<std::string> begun;
    for (const auto& build : spawner.builds) begun.insert(build.id);
    const auto quiet = Ask(By("quiet"));
    for (int i = 0; i < 100; ++i) refused += Ask(By("flood"))->called;
    ASSERT_FALSE(quiet->called) << "refused in second " << second;
    // The builds of the other tenant that have their turn after this create came, and before it.
    size_t before = 0;
    for (bool mine = false; !mine;) {
      for (const auto& build : spawner.builds) {
        if (!begun.insert(build.id).second) continue;
        mine = mine || owner_of(build.id) == "quiet";
        before += !mine;
      }
      if (mine) break;
      ASSERT_FALSE(spawner.builds.empty());
      execds.push_back(std::move(spawner.AnswerBuild().control));
      loop.Run();
    }
    EXPECT_LE(before, 1U) << "in second " << second;
    while (!quiet->called) {
      execds.push_back(std::move(spawner.AnswerBuild().control));
      loop.Run();
    }
    EXPECT_TRUE(quiet->result);
    // The host keeps up with a tenth of the flood.
    for (int i = 0; i < 20; ++i) {
      execds.push_back(std::move(spawner.AnswerBuild().control));
      loop.Run();
    }
    execds.clear();
  }
  EXPECT_GT(refused, 20 * 100U) << "the queue was never full";
}

// Thousands of events in random order, restarts included. After each, what Room holds for a tenant
// is the sum over the records, no quota is exceeded, and a request is refused exactly when what it
// asks for does not fit.
class QuotaHistory : public QuotaTest {
 protected:
  static constexpr size_t kSandboxes = 6, kGpus = 2, kVolumes = 3, kSnapshots = 2, kPools = 2;
  static constexpr uint64_t kMemory = 512 * kMiB;

  Owned Sum(const std::string& tenant) const {
    Owned sum;
    for (const auto& [id, sandbox] : sandboxes->registry) {
      if (sandbox.stocked || sandbox.tenant != tenant || !CountsForQuota(sandbox.state)) continue;
      ++sum.sandboxes;
      sum.cpu_millis += sandbox.spec.limits.cpu_millis;
      sum.memory_bytes += sandbox.spec.limits.memory_bytes;
      sum.disk_bytes += sandbox.spec.limits.disk_bytes;
      sum.gpus += sandbox.devices.size();
    }
    // Named, because a range-for keeps no temporary alive but the range itself.
    const auto volumes_of = volume_store->Load();
    const auto snapshots_of = snapshot_store->Load();
    const auto pools_of = pool_store->Load();
    for (const VolumeRecord& record : *volumes_of) sum.volumes += record.tenant == tenant;
    for (const Snapshot& record : *snapshots_of) sum.snapshots += record.tenant == tenant;
    for (const PoolRecord& record : *pools_of) sum.pools += record.tenant == tenant;
    return sum;
  }
  void Check(const std::string& after) {
    for (const char* tenant : {"red", "blue"}) {
      const Owned sum = Sum(tenant);
      ASSERT_EQ(sandboxes->room.OwnedBy(tenant), sum) << tenant << " after " << after;
      ASSERT_LE(sum.sandboxes, kSandboxes);
      ASSERT_LE(sum.memory_bytes, kMemory);
      ASSERT_LE(sum.gpus, kGpus);
      ASSERT_LE(sum.volumes, kVolumes);
      ASSERT_LE(sum.snapshots, kSnapshots);
      ASSERT_LE(sum.pools, kPools);
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
  void BeginImport() {
    import = imports->Begin("new:latest", [] { return std::string();
  });
} void Restart() {
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
  spawner.volume_calls.clear();
  Boot(hello);
  BeginImport();
}
static bool IsQuota(const Error& error) {
  return QuotaRefusalOf(error).has_value();
}
void Count(bool refused, bool fits) {
  ASSERT_EQ(refused, !fits);
  ++(refused ? refusals : creates);
}
void Create(std::mt19937& random) {
  const std::string tenant = random() % 2 ? "red" : "blue";
  const bool large = random() % 2, gpu = random() % 3 == 0;
  Wanted wanted = WithMemory(large ? "128Mi" : "64Mi");
  if (random() % 8 == 0) wanted.spec.image = "new";
  if (gpu) wanted.resource_limits["gpu"] = "1";
  const Owned before = Sum(tenant);
  const bool fits = before.sandboxes < kSandboxes &&
                    before.memory_bytes + (large ? 128 : 64) * kMiB <= kMemory &&
                    (!gpu || before.gpus < kGpus);
  const auto answer = Ask(By(tenant), wanted);
  Count(answer->called && !answer->result && IsQuota(answer->result.error()), fits);
}
void ChangeVolumes(std::mt19937& random) {
  const tenants::Caller caller = By(random() % 2 ? "red" : "blue");
  const std::string name(1, static_cast<char>('a' + random() % 5));
  const uint64_t had = Sum(caller.tenant).volumes;
  const std::vector<VolumeRecord> records = *volume_store->Load();
  const bool is_there =
      std::any_of(records.begin(), records.end(), [&](const VolumeRecord& record) {
        return record.directory == wire::VolumeDirectory(caller.tenant, name);
      });
  if (random() % 2) return (void)volumes->Remove(caller, name);
  // Shared, because the answer may come later. A volume that is being removed is waited for.
  const auto refused = std::make_shared<bool>(false);
  volumes->Create(caller, name, 0, [refused](const Result<Volumes::View>& view) {
    *refused = !view && IsQuota(view.error());
  });
  if (!is_there) Count(*refused, had < kVolumes);
}
void ChangeSnapshots(std::mt19937& random) {
  if (random() % 2) {
    const auto all = snapshots->All(tenants::Caller::Daemon());
    if (all.empty()) return;
    return (void)sandboxes->copies.RemoveSnapshot(tenants::Caller::Daemon(),
                                                  all[random() % all.size()]->id);
  }
  const std::string id =
      Any(random, [](const Sandbox& sandbox) { return sandbox.state == State::kRunning; });
  if (id.empty()) return;
  const std::string tenant = sandboxes->registry.Look(id)->tenant;
  const uint64_t had = Sum(tenant).snapshots;
  const auto taken = sandboxes->copies.TakeSnapshot(By(tenant), id, "s");
  if (taken || IsQuota(taken.error())) Count(!taken, had < kSnapshots);
}
void ChangePools(std::mt19937& random) {
  const tenants::Caller caller = By(random() % 2 ? "red" : "blue");
  const std::string name(1, static_cast<char>('a' + random() % 4));
  if (random() % 2) return (void)sandboxes->pools.Remove(caller, name);
  if (sandboxes->pools.Find(caller, name)) return;
  const uint64_t had = Sum(caller.tenant).pools;
  const Status made =
      sandboxes->pools.Create(caller, {.key = name, .image = "busybox", .capacity = {0, 1, 0, 1}});
  if (made || IsQuota(made.error())) Count(!made, had < kPools);
}
// Does one event of the table. Returns its name.
std::string Event(std::mt19937& random);

PendingImports::Id import{};
size_t creates = 0, refusals = 0;
};  // namespace

std::string QuotaHistory::Event(std::mt19937& random) {
  const auto is_live = [](const Sandbox& s) { return IsLive(s.state); };
  const auto failure = [] { return Fail(Code::kInternal, "no"); };
  switch (random() % 22) {
    case 0:
    case 1:
    case 2:
    case 3:
      Create(random);
      return "create";
    case 4:
    case 5:
    case 6:
      if (!spawner.builds.empty()) spawner.AnswerBuild();
      return "built";
    case 7:
      if (!spawner.builds.empty()) spawner.AnswerBuild(failure());
      return "not built";
    case 8:
      if (const std::string id = Any(random, [](const Sandbox&) { return true; }); !id.empty()) {
        (void)sandboxes->endings.Delete(tenants::Caller::Daemon(), id);
      }
      return "delete";
    case 9:
    case 10:
      if (!spawner.destroys.empty()) spawner.AnswerDestroy();
      return "destroyed";
    case 11:
      if (const std::string id = Any(random, is_live); !id.empty()) {
        Ended(HostId(*sandboxes->registry.Look(id)), Exit(static_cast<int>(random() % 2)));
      }
      return "exit";
    case 12:
      if (const std::string id = Any(random, is_live); !id.empty()) {
        const std::string tenant = sandboxes->registry.Look(id)->tenant;
        sandboxes->forks.Fork(By(tenant), id, {.count = 1 + random() % 3},
                              [](const tl::expected<std::vector<Sandbox>, CreateError>&) {});
      }
      return "fork";
    case 13:
      if (!spawner.copies.empty()) {
        random() % 3 ? spawner.AnswerCopy() : spawner.AnswerCopy(failure());
      }
      if (!spawner.publishes.empty()) spawner.AnswerPublish();
      return "copied";
    case 14:
      loop.Pass(random() % 20 == 0 ? 61 * kSecond : 50'000);
      return "time";
    case 15:
    case 16:
      ChangeVolumes(random);
      return "volume";
    case 17:
      if (!spawner.volume_calls.empty()) {
        random() % 4 ? spawner.AnswerVolume() : spawner.AnswerVolume(failure());
      }
      return "volume answered";
    case 18:
      ChangeSnapshots(random);
      return "snapshot";
    case 19:
      ChangePools(random);
      return "pool";
    default:
      if (random() % 8 == 0) {
        Restart();
        return "restart";
      }
      if (random() % 4 == 0) {
        imports->End(import, Fail(Code::kInvalidArgument, "no archive"));
        BeginImport();
      }
      return "import failed";
  }
}

TEST_F(QuotaHistory, WhatIsHeldIsTheSumOverTheRecords) {
  config.check.limits_available.keys = {"memory"};
  config.check.devices = {{"0", {}}, {"1", {}}, {"2", {}}, {"3", {}}};
  config.automatic_pools = 2;
  config.parked_sandboxes = 64;
  Boot({});
  std::vector<tenants::Tenant> both(2);
  both[0].name = "red";
  both[1].name = "blue";
  for (auto& tenant : both) {
    tenant.max = {.sandboxes = kSandboxes,
                  .memory_bytes = kMemory,
                  .gpus = kGpus,
                  .volumes = kVolumes,
                  .snapshots = kSnapshots,
                  .pools = kPools};
  }
  tenants.Replace(both);
  BeginImport();
  std::mt19937 random(20261128);
  for (int i = 0; i < 8000; ++i) {
    const std::string event = Event(random);
    loop.Run();
    Check(event);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(creates, 300U);
  EXPECT_GT(refusals, 50U);
  // Everything ends, and nothing is held.
  for (int round = 0; round < 10; ++round) {
    while (!spawner.builds.empty()) spawner.AnswerBuild(Fail(Code::kInternal, "no"));
    while (!spawner.copies.empty()) spawner.AnswerCopy(Fail(Code::kInternal, "no"));
    // A removal that has failed is tried again.
    loop.Pass(6 * kSecond);
    while (!spawner.volume_calls.empty()) spawner.AnswerVolume();
    for (const char* tenant : {"red", "blue"}) {
      for (const char* name : {"a", "b", "c", "d", "e"}) {
        (void)sandboxes->pools.Remove(By(tenant), name);
        (void)volumes->Remove(By(tenant), name);
      }
    }
    std::vector<std::string> ids;
    for (const auto& [id, sandbox] : sandboxes->registry) ids.push_back(id);
    for (const std::string& id : ids) {
      (void)sandboxes->endings.Delete(tenants::Caller::Daemon(), id);
    }
    std::vector<std::string> taken;
    for (const auto* snapshot : snapshots->All(tenants::Caller::Daemon())) {
      taken.push_back(snapshot->id);
    }
    for (const std::string& id : taken) {
      (void)sandboxes->copies.RemoveSnapshot(tenants::Caller::Daemon(), id);
    }
    while (!spawner.destroys.empty()) spawner.AnswerDestroy();
    loop.Run();
  }
  EXPECT_EQ(sandboxes->room.OwnedBy("red"), Owned());
  EXPECT_EQ(sandboxes->room.OwnedBy("blue"), Owned());
}

}  // namespace atl::sandbox
}  // namespace atl::sandbox
