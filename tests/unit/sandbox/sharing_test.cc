// Places that all tenants share: one never takes so many that another finds none.
#include <map>

#include "runtime/sandbox/store/idempotency.h"
#include "tests/unit/sandbox/templates_fixture.h"

namespace atl::sandbox {
namespace {

class SharingTest : public TemplatesTest {
 protected:
  void BootFor(const std::vector<std::string>& names) {
    Boot({});
    std::vector<tenants::Tenant> all;
    for (const std::string& name : names) {
      tenants::Tenant& tenant = all.emplace_back();
      tenant.name = name;
    }
    tenants.Replace(all);
  }
  void Be(const std::string& tenant) {
    who = {.tenant = tenant, .key_id = tenant, .role = tenants::Role::kDeveloper};
  }
  // Calls `take` for the tenant until it returns false. Returns how often it was true.
  template <typename Take>
  size_t Fill(const std::string& tenant, Take take) {
    Be(tenant);
    size_t count = 0;
    while (count < 200 && take(count)) ++count;
    return count;
  }
};

TEST_F(SharingTest, ParkedSandboxes) {
  config.parked_sandboxes = 8;
  BootFor({"red", "blue"});
  const auto capacity = [&](const std::string& name, uint32_t most) {
    const PoolCapacity of{0, most, 0, 100};
    if (sandboxes->pools.Find(who, name)) return sandboxes->pools.Resize(who, name, of);
    return sandboxes->pools.Create(who, {.key = name, .image = "busybox", .capacity = of});
  };
  Be("red");
  const Status refused = capacity("p", 5);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("keeps for tenant red"), std::string::npos);
  EXPECT_TRUE(capacity("p", 2));
  EXPECT_TRUE(capacity("q", 2));
  EXPECT_FALSE(capacity("q", 3));
  EXPECT_TRUE(capacity("p", 1));
  EXPECT_TRUE(capacity("q", 3));
  TemplateRecord stocked;
  stocked.image = "busybox";
  stocked.stock = 1;
  EXPECT_FALSE(sandboxes->templates.Create(who, stocked)) << "pools and templates share";
  Be("blue");
  EXPECT_FALSE(capacity("p", 3));
  EXPECT_TRUE(capacity("p", 2));
  // The host takes what is left.
  who = kCaller;
  EXPECT_FALSE(capacity("p", 3));
  EXPECT_TRUE(capacity("p", 2));
}

TEST_F(SharingTest, TemplatesAndTheCreatesThatWaitForThem) {
  BootFor({"red", "blue"});
  std::map<std::string, std::string> usable;
  for (const std::string tenant : {"red", "blue"}) {
    Be(tenant);
    usable[tenant] = Make();
    BuildReady();
  }
  for (const auto& [tenant, id] : usable) {
    Be(tenant);
    Claim(Of(id));
  }
  TemplateRecord record;
  record.image = "busybox";
  record.stock = 0;
  const auto make = [&](size_t) { return sandboxes->templates.Create(who, record).has_value(); };
  // Each has one already.
  EXPECT_EQ(Fill("red", make), Templates::kMaxTemplates / 2 - 1);
  EXPECT_EQ(Fill("blue", make), Templates::kMaxTemplates / 4 - 1);
  const auto wait = [&](size_t) { return !Create(Of(usable[who.tenant]))->called; };
  EXPECT_EQ(Fill("red", wait), 32U);
  EXPECT_EQ(Fill("blue", wait), 16U);
}

TEST_F(SharingTest, MembersInPreparation) {
  config.parked_sandboxes = 64;
  BootFor({"blue", "red"});
  Be("red");
  for (int i = 0; i < 4; ++i) Make();
  Be("blue");
  const std::string of_blue = Make();
  // No preparation ends, because nobody answers at these sockets.
  std::vector<UniqueFd> listeners;
  size_t of_red = 0;
  for (int i = 0; i < 200; ++i) {
    loop.Pass(50'000);
    if (spawner.builds.empty()) continue;
    const std::string id = spawner.builds.front().id;
    const std::string path = sandboxes->registry.SocketPathOf(id);
    ::unlink(path.c_str());
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    listeners.push_back(std::move(listener));
    of_red += sandboxes->registry.Look(id)->spec.network.tenant == "red";
    execds.push_back(std::move(spawner.AnswerBuild().control));
    loop.Run();
  }
  EXPECT_EQ(of_red, 2U);
  EXPECT_EQ(sandboxes->templates.Find(who, of_blue)->building, 1U);
}

TEST_F(SharingTest, Differences) {
  BootFor({"red", "blue"});
  const auto compare = [&](size_t) {
    const std::string id = CreateRunning();
    execds.push_back(std::move(execd));
    bool refused = false;
    sandboxes->copies.Diff(who, id, "", false, UniqueFd(),
                           [&refused](const Status& done) { refused = !done; });
    return !refused;
  };
  EXPECT_EQ(Fill("red", compare), 4U);
  EXPECT_EQ(Fill("blue", compare), 2U);
  EXPECT_EQ(spawner.diffs.size(), 6U);
  for (int i = 0; i < 2; ++i) spawner.diffs[static_cast<size_t>(i)].second(wire::Unpacked{});
  EXPECT_EQ(Fill("red", compare), 1U);
}

TEST_F(SharingTest, CreatesThatWaitForAnImage) {
  build_queue = 8;
  BootFor({"red", "blue"});
  imports->Begin("new:latest", [] { return std::string(); });
  const auto wait = [&](size_t) {
    Wanted wanted = Want();
    wanted.spec.image = "new";
    return Create(std::move(wanted))->result.has_value();
  };
  EXPECT_EQ(Fill("red", wait), 4U);
  EXPECT_EQ(Fill("blue", wait), 2U);
  EXPECT_EQ(Fill("red", wait), 0U);
}

TEST_F(SharingTest, SnapshotsOfTheHost) {
  snapshot_config.max_count = 8;
  BootFor({"red", "blue"});
  const auto take = [&](size_t) {
    const std::string id = CreateRunning();
    execds.push_back(std::move(execd));
    return sandboxes->copies.TakeSnapshot(who, id, "s").has_value();
  };
  EXPECT_EQ(Fill("red", take), 4U);
  EXPECT_EQ(Fill("blue", take), 2U);
  EXPECT_EQ(Fill("", take), 2U);
}

TEST(Sharing, AFloodOfKeysMakesNobodyElsesForgotten) {
  Idempotency keys;
  int64_t now = 0;
  const auto add = [&](const std::string& tenant, const std::string& key) {
    keys.Add({.tenant = tenant, .key = key, .made_ms = ++now});
  };
  for (int i = 0; i < 100; ++i) add("quiet", std::to_string(i));
  for (size_t i = 0; i < kMaxKeys + 100; ++i) add("flood", std::to_string(i));
  EXPECT_EQ(keys.size(), kMaxKeys);
  EXPECT_NE(keys.Find("quiet", "0"), nullptr);
  EXPECT_EQ(keys.Find("flood", "199"), nullptr);
  EXPECT_NE(keys.Find("flood", "200"), nullptr);
}

TEST_F(SharingTest, ANarrowedKeyHasNoLargerPoolThanItsOwnLimits) {
  config.parked_sandboxes = 64;
  config.check.limits_available.keys = {"memory"};
  BootFor({"red"});
  Be("red");
  PoolRecord record{.key = "p", .image = "busybox", .resource_limits = {{"memory", "64Mi"}}};
  tenants::Caller narrow = who;
  const auto narrow_to = [&narrow](tenants::Narrowing to) {
    narrow.narrowing = std::make_shared<const tenants::Narrowing>(std::move(to));
  };
  const auto refusal = [](const Status& status) {
    const auto quota = status ? std::nullopt : QuotaRefusalOf(status.error());
    if (quota) return quota->quota + " " + quota->limit + " " + quota->asked;
    return status ? std::string("fits") : status.error().message();
  };
  const auto make = [&](const tenants::Caller& caller, const PoolCapacity& capacity) {
    record.capacity = capacity;
    return refusal(sandboxes->pools.Create(caller, record));
  };
  const auto resize = [&](const tenants::Caller& caller, const PoolCapacity& capacity) {
    return refusal(sandboxes->pools.Resize(caller, "p", capacity));
  };
  narrow_to({.max = {.sandboxes = 2}});
  EXPECT_EQ(make(narrow, {0, 3, 0, 2}), "sandboxes 2 3");
  EXPECT_EQ(make(narrow, {0, 2, 0, 2}), "fits");
  EXPECT_EQ(resize(narrow, {0, 3, 0, 2}), "sandboxes 2 3");
  EXPECT_EQ(resize(narrow, {0, 1, 3, 3}), "sandboxes 2 3");
  EXPECT_EQ(resize(narrow, {0, 1, 0, 50}), "sandboxes 2 50");
  EXPECT_EQ(sandboxes->pools.Find(who, "p")->record.capacity.pool_max, 2U);
  narrow_to({.max = {.memory_bytes = 100 << 20}});
  EXPECT_EQ(resize(narrow, {0, 2, 0, 2}), "memory 100Mi 128Mi");
  EXPECT_EQ(resize(narrow, {0, 1, 0, 1}), "fits");
  narrow_to({.images = {"python"}});
  EXPECT_NE(resize(narrow, {0, 1, 0, 1}).find("this key may not use image"), std::string::npos);
  // The key that is not narrowed may do what the tenant may.
  EXPECT_EQ(resize(who, {0, 4, 0, 50}), "fits");
  tenants::Tenant red;
  red.name = "red";
  red.max = {.sandboxes = 3};
  tenants.Replace({red});
  EXPECT_EQ(resize(who, {0, 4, 0, 50}), "sandboxes 3 4");
  EXPECT_EQ(resize(who, {0, 3, 0, 50}), "fits");
}

}  // namespace
}  // namespace atl::sandbox
