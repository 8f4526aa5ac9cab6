// Objects that belong to the host until a client has them, and objects that tenants share without
// seeing each other.
#include <algorithm>
#include <cerrno>

#include "tests/unit/sandbox/templates_fixture.h"

namespace atl::sandbox {
namespace {

class OwnersTest : public TemplatesTest {
 protected:
  void Be(const std::string& tenant) { who = {.tenant = tenant}; }
  static Wanted OfImage(const std::string& image) {
    Wanted wanted = Want();
    wanted.spec.image = image;
    return wanted;
  }
  images::Image ImageOf(const std::string& tenant, std::vector<wire::LayerId> layers) {
    images::Image image = images.image;
    image.name = "tool:latest";
    image.tenant = tenant;
    image.digest = "sha256:" + tenant;
    image.layers = std::move(layers);
    images.kept.insert(image.layers.begin(), image.layers.end());
    images.owned[images::ImageKey(tenant, image.name)] = image;
    return image;
  }
};

TEST_F(OwnersTest, AMemberIsTheHostsUntilItsClaim) {
  Be("red");
  const std::string of = Make(), member = BuildReady();
  EXPECT_EQ(sandboxes->registry.Look(member)->tenant, "");
  // The network is the tenant's as after a cold create, because its program already runs.
  EXPECT_EQ(network.claimed.at(sandboxes->registry.Look(member)->slot).tenant, "red");
  Be("blue");
  const auto other = Create(Of(of));
  ASSERT_TRUE(other->called);
  EXPECT_EQ(other->result.error().code(), Code::kNotFound);
  Be("red");
  EXPECT_EQ(Claim(Of(of))->result->id, member);
  const Sandbox& claimed = *sandboxes->registry.Look(member);
  EXPECT_EQ(claimed.tenant, "red");
  EXPECT_EQ(claimed.spec.network.tenant, "red");
  EXPECT_EQ(Stored().front().tenant, "red");
  EXPECT_EQ(sandboxes->registry.Find(kCaller, member), nullptr);
  ASSERT_TRUE(sandboxes->endings.Delete(who, member));
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_TRUE(sandboxes->registry.IsGone(who, member));
  EXPECT_FALSE(sandboxes->registry.IsGone(kCaller, member));
}

TEST_F(OwnersTest, ATemplateMeansTheImageOfItsTenant) {
  ImageOf("red", {2, 1});
  Be("red");
  TemplateRecord record;
  record.image = "tool:latest";
  record.entrypoint = {"server"};
  ASSERT_TRUE(sandboxes->templates.Create(who, record));
  Be("blue");
  EXPECT_EQ(sandboxes->templates.Create(who, record).error().code(), Code::kNotFound);
}

TEST_F(OwnersTest, AForkBelongsToTheTenantOfItsParent) {
  Be("red");
  const std::string parent = CreateRunning();
  std::vector<Sandbox> children;
  // An administrator forks it.
  sandboxes->forks.Fork(tenants::Caller::Daemon(), parent,
                        {.count = 1, .fingerprint = "f", .request_id = "r"},
                        [&](const auto& made) { children = made.value(); });
  loop.Run();
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  loop.Run();
  spawner.AnswerBuild();
  loop.Run();
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(children[0].tenant, "red");
}

TEST_F(OwnersTest, AFullHostDoesNotSayWhatOthersHave) {
  config.budget.sandboxes = 7;
  Boot({});
  Be("red");
  for (int i = 0; i < 7; ++i) CreateRunning();
  Be("blue");
  const auto full = Create();
  ASSERT_TRUE(full->called);
  EXPECT_EQ(full->result.error().code(), Code::kResourceExhausted);
  EXPECT_EQ(full->result.error().error_number(), ENOMEM);
  EXPECT_EQ(full->result.error().message().find('7'), std::string::npos)
      << full->result.error().message();
  Be("");
  EXPECT_NE(Create()->result.error().message().find('7'), std::string::npos);
}

TEST_F(OwnersTest, AnAutomaticPoolIsForThoseWhoHaveItsImage) {
  config.automatic_pools = 4;
  config.parked_sandboxes = 8;
  Boot({});
  ImageOf("red", {2, 1});
  ImageOf("blue", {3, 1});
  const auto create = [&](const std::string& tenant, const std::string& image) {
    Be(tenant);
    const std::vector<std::string> parked = sandboxes->pools.Parked();
    const auto answer = Create(OfImage(image));
    while (!answer->called) execds.push_back(spawner.AnswerBuild().control);
    EXPECT_TRUE(answer->result) << answer->result.error().message();
    for (int i = 0; i < 20; ++i) {
      loop.Pass(50'000);
      if (!spawner.builds.empty()) execds.push_back(spawner.AnswerBuild().control);
    }
    return std::count(parked.begin(), parked.end(), answer->result->id) == 1;
  };
  EXPECT_FALSE(create("red", "tool:latest"));
  EXPECT_EQ(sandboxes->pools.automatic(), 1U);
  EXPECT_FALSE(create("blue", "tool:latest")) << "its own image of that name";
  EXPECT_EQ(sandboxes->pools.automatic(), 2U) << "and it has put red's out of nothing";
  EXPECT_TRUE(create("red", "tool:latest"));
  EXPECT_TRUE(create("blue", "tool:latest"));
  // Everybody claims from that of an image of the host.
  EXPECT_FALSE(create("red", "busybox"));
  EXPECT_TRUE(create("blue", "busybox"));
  EXPECT_EQ(sandboxes->registry.All(who).size(), 3U);
}

TEST_F(OwnersTest, APullIsForTheTenantThatAsks) {
  puller.pullable = "new:latest";
  Be("red");
  const auto red = Create(OfImage("new"));
  ASSERT_TRUE(red->called && red->result);
  Be("blue");
  const auto blue = Create(OfImage("new"));
  ASSERT_TRUE(blue->called && blue->result);
  ASSERT_EQ(puller.pulls.size(), 2U);
  EXPECT_EQ(puller.pulls[0].tenant, "red");
  EXPECT_EQ(puller.pulls[1].tenant, "blue");
  images::Image image = images.image;
  image.name = "new:latest";
  image.tenant = "red";
  images.owned[images::ImageKey("red", "new:latest")] = image;
  puller.pulls[0].done({});
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds.front().id, red->result->id);
  EXPECT_EQ(sandboxes->registry.Look(blue->result->id)->state, State::kAwaiting);
  // An upload of the host serves a tenant, too.
  Be("green");
  puller.pullable.clear();
  EXPECT_EQ(Create(OfImage("up"))->result.error().code(), Code::kNotFound);
  const auto upload = imports->Begin("up:latest", [] { return std::string(); });
  const auto waits = Create(OfImage("up"));
  ASSERT_TRUE(waits->called && waits->result);
  image.name = "up:latest";
  image.tenant.clear();
  images.owned["up:latest"] = image;
  imports->End(upload, {});
  loop.Run();
  EXPECT_EQ(sandboxes->registry.Look(waits->result->id)->state, State::kBuilding);
  // An upload of a tenant serves no other.
  imports->Begin(images::ImageKey("red", "private:latest"), [] { return std::string(); });
  EXPECT_EQ(Create(OfImage("private"))->result.error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace atl::sandbox
