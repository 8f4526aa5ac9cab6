// GPUs among fakes: who gets which, and that each comes back once.
#include "runtime/sandbox/create/gpus.h"

#include <algorithm>

#include "runtime/sandbox/copies/forks.h"
#include "runtime/wire/plan.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class GpusTest : public SandboxesTest {
 protected:
  GpusTest() {
    config.check.devices = {{"0", {"VISIBLE=0", "LD_LIBRARY_PATH=/usr/lib/gpu"}},
                            {"1", {"VISIBLE=1", "LD_LIBRARY_PATH=/usr/lib/gpu"}},
                            {"2", {"VISIBLE=2", "LD_LIBRARY_PATH=/usr/lib/gpu"}}};
    Boot({});
  }
  static Wanted WantGpus(const std::string& count) {
    Wanted wanted = Want();
    wanted.resource_limits["gpu"] = count;
    return wanted;
  }
  const Sandbox& Made(const std::string& count) {
    return *sandboxes->registry.Find(kCaller, CreateRunning(WantGpus(count)));
  }
  Error Refused(const std::string& count) {
    const auto answer = Create(WantGpus(count));
    EXPECT_TRUE(answer->called);
    EXPECT_FALSE(answer->result) << count;
    EXPECT_TRUE(spawner.builds.empty());
    return answer->result ? Error(Code::kInternal, "granted") : answer->result.error();
  }
  size_t Free() { return sandboxes->check.gpus().Free(); }
  void End(const std::string& id) {
    ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
    loop.Run();
  }
};
using Names = std::vector<std::string>;

TEST_F(GpusTest, EachIsGivenOnce) {
  EXPECT_EQ(Made("1").devices, Names{"0"});
  EXPECT_EQ(Made("2").devices, (Names{"1", "2"}));
  EXPECT_EQ(sandboxes->registry.Find(kCaller, CreateRunning())->devices, Names());
  const Error none = Refused("1");
  EXPECT_EQ(none.code(), Code::kResourceExhausted);
  EXPECT_NE(none.message().find("0 of 3 GPUs of this host are free"), std::string::npos);
  EXPECT_EQ(Refused("all").code(), Code::kResourceExhausted);
}

TEST_F(GpusTest, ThePlanNamesThemAndTheProgramGetsTheirVariables) {
  Wanted wanted = WantGpus("all");
  wanted.spec.env = {{"VISIBLE", "mine"}, {"LD_LIBRARY_PATH", "/opt/lib"}};
  Create(wanted);
  loop.Run();
  ASSERT_EQ(spawner.builds.size(), 1U);
  EXPECT_EQ(spawner.builds[0].plan->devices, (Names{"0", "1", "2"}));
  const Sandbox& sandbox = *sandboxes->registry.Look(spawner.builds[0].id);
  const Names env = StartMessageOf(sandbox).env;
  const auto has = [&env](const char* entry) {
    return std::find(env.begin(), env.end(), entry) != env.end();
  };
  EXPECT_TRUE(has("VISIBLE=2"));
  EXPECT_TRUE(has("LD_LIBRARY_PATH=/opt/lib:/usr/lib/gpu"));
  EXPECT_FALSE(has("VISIBLE=mine"));
}

TEST_F(GpusTest, ADeviceIsFreeOnceTheSpawnerHasTakenItsSandboxDown) {
  const std::string id = CreateRunning(WantGpus("all"));
  EXPECT_EQ(Free(), 0U);
  End(id);
  EXPECT_EQ(Free(), 0U);
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_EQ(Free(), 3U);
  EXPECT_EQ(Made("all").devices.size(), 3U);
}

TEST_F(GpusTest, AFailedBuildGivesThemBack) {
  Create(WantGpus("2"));
  loop.Run();
  EXPECT_EQ(Free(), 1U);
  spawner.AnswerBuild(Fail(Code::kInternal, "step volumes"));
  loop.Run();
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_EQ(Free(), 3U);
}

TEST_F(GpusTest, TheRecordSurvivesTheDaemon) {
  const std::string id = CreateRunning(WantGpus("2"));
  wire::Greeting hello;
  hello.sandboxes = {Present(id)};
  Boot(hello);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->devices, (Names{"0", "1"}));
  EXPECT_EQ(Free(), 1U);
  EXPECT_EQ(Refused("2").code(), Code::kResourceExhausted);
  EXPECT_EQ(Made("1").devices, Names{"2"});
}

TEST_F(GpusTest, NumbersThatAreNone) {
  for (const char* bad : {"", "-1", "1.5", "one", "1 ", "99999999999999999999", "4"}) {
    EXPECT_EQ(Refused(bad).code(), Code::kInvalidArgument) << bad;
  }
  EXPECT_EQ(Made("0").devices, Names());
  EXPECT_EQ(Free(), 3U);
}

TEST_F(GpusTest, AHostWithoutAnyRefuses) {
  sandboxes->check.gpus().SetOffered({});
  EXPECT_EQ(Refused("1").code(), Code::kUnimplemented);
  EXPECT_EQ(Refused("all").code(), Code::kUnimplemented);
}

TEST_F(GpusTest, OtherTiersHaveNone) {
  config.check.tiers = {"namespace", "gvisor"};
  Boot({});
  Wanted wanted = WantGpus("1");
  wanted.isolation = "gvisor";
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kUnimplemented);
  EXPECT_EQ(Free(), 3U);
}

TEST_F(GpusTest, SharedOnesAreSpread) {
  config.check.share_devices = true;
  Boot({});
  EXPECT_EQ(Made("1").devices, Names{"0"});
  EXPECT_EQ(Made("1").devices, Names{"1"});
  EXPECT_EQ(Made("2").devices, (Names{"2", "0"}));
  EXPECT_EQ(Made("all").devices.size(), 3U);
}

TEST_F(GpusTest, ChildrenOfAForkGetOthers) {
  const std::string id = CreateRunning(WantGpus("1"));
  const auto fork = [&](size_t count) {
    std::optional<CreateError> refused;
    sandboxes->forks.Fork(kCaller, id, {.count = count, .request_id = "r"}, [&](const auto& made) {
      if (!made) refused = made.error();
    });
    loop.Run();
    return refused;
  };
  const auto refused = fork(3);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Code::kResourceExhausted);
  EXPECT_EQ(Free(), 2U);
  EXPECT_FALSE(fork(2));
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  loop.Run();
  std::set<std::string> given;
  while (!spawner.builds.empty()) {
    const auto build = spawner.AnswerBuild();
    for (const std::string& name : build.plan->devices) given.insert(name);
    loop.Run();
  }
  EXPECT_EQ(given, (std::set<std::string>{"1", "2"}));
  EXPECT_EQ(Free(), 0U);
}

TEST_F(GpusTest, PoolsAndTemplatesHaveNone) {
  EXPECT_EQ(sandboxes->pools
                .Create(kCaller, {.key = "warm",
                                  .image = "busybox",
                                  .resource_limits = {{"gpu", "1"}},
                                  .capacity = {1, 1, 0, 10}})
                .error()
                .code(),
            Code::kInvalidArgument);
  TemplateRecord record;
  record.image = "busybox";
  record.resource_limits = {{"gpu", "1"}};
  EXPECT_EQ(sandboxes->check.Member(record).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::sandbox
