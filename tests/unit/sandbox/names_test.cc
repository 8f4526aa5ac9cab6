#include "runtime/sandbox/state/names.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class NamesTest : public SandboxesTest {
 protected:
  static Wanted Called(const std::string& name, bool unique = true) {
    Wanted wanted = Want();
    wanted.metadata = {{kName, name}};
    wanted.spec.unique_name = unique;
    return wanted;
  }
  Code Refused(Wanted wanted) {
    const auto answer = Create(std::move(wanted));
    return answer->called && !answer->result ? answer->result.error().code() : Code::kInternal;
  }
  Status Rename(const std::string& id, const std::string& name) {
    return sandboxes->changes.PatchMetadata(kCaller, id, {{kName, name}});
  }
};

TEST_F(NamesTest, OneOfTwoAtOnceGetsIt) {
  const auto first = Create(Called("web"));
  EXPECT_FALSE(first->called);
  const auto second = Create(Called("web"));
  ASSERT_TRUE(second->called);
  EXPECT_EQ(second->result.error().code(), Code::kAlreadyExists);
  EXPECT_EQ(sandboxes->registry.size(), 1U);
  spawner.AnswerBuild();
  ASSERT_TRUE(first->result);
  EXPECT_NE(second->result.error().message().find(first->result->id), std::string::npos);
  EXPECT_EQ(Refused(Called("web")), Code::kAlreadyExists);
  CreateRunning(Called("web2"));
}

TEST_F(NamesTest, WhoDoesNotAskIsNotRefused) {
  CreateRunning(Called("web"));
  CreateRunning(Called("web", false));
  const std::string other = CreateRunning(Called("db", false));
  EXPECT_TRUE(Rename(other, "web"));
  // A sandbox may not take a name for itself if any other sandbox has it.
  CreateRunning(Called("db", false));
  EXPECT_EQ(Refused(Called("db")), Code::kAlreadyExists);
}

TEST_F(NamesTest, ItIsFreeWhenTheSandboxHasEnded) {
  const std::string id = CreateRunning(Called("web"));
  EXPECT_EQ(Refused(Called("web")), Code::kAlreadyExists);
  // The ended sandbox can still be read, but no longer holds the name.
  Ended(id, Exit(0));
  const std::string next = CreateRunning(Called("web"));
  EXPECT_EQ(Refused(Called("web")), Code::kAlreadyExists);
  EXPECT_TRUE(sandboxes->changes.PatchMetadata(kCaller, id, {{"team", "a"}}))
      << "other labels of the ended sandbox can change";
  EXPECT_TRUE(sandboxes->endings.Delete(kCaller, next));
  CreateRunning(Called("web"));
}

TEST_F(NamesTest, ItIsFreeWhenNothingCameOfTheCreate) {
  const auto failed = Create(Called("web"));
  spawner.AnswerBuild(Fail(Code::kInternal, "no"));
  EXPECT_FALSE(failed->result);
  CreateRunning(Called("web"));
}

TEST_F(NamesTest, ItMovesWithTheMetadata) {
  const std::string id = CreateRunning(Called("web"));
  const std::string other = CreateRunning(Called("db"));
  EXPECT_TRUE(Rename(id, "web"));
  const Status taken = Rename(id, "db");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kAlreadyExists);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, id)->metadata.at(kName), "web");
  EXPECT_TRUE(Rename(id, "www"));
  EXPECT_TRUE(Rename(other, "web"));
  EXPECT_TRUE(sandboxes->changes.PatchMetadata(kCaller, id, {{kName, std::nullopt}}));
  CreateRunning(Called("www"));
}

TEST_F(NamesTest, ARestartKnowsThem) {
  const std::string id = CreateRunning(Called("web"));
  wire::Greeting hello;
  hello.sandboxes = {Present(id)};
  Boot(hello);
  EXPECT_EQ(Refused(Called("web")), Code::kAlreadyExists);
  EXPECT_TRUE(Rename(id, "web"));
}

TEST_F(NamesTest, CopiesDoNotHaveTheNameOfTheirSource) {
  Wanted wanted = Called("web");
  wanted.metadata["team"] = "ml";
  wanted.spec.extensions = {{kUniqueName, "true"}, {"mark", "1"}};
  const std::string id = CreateRunning(wanted);
  std::vector<Sandbox> children;
  sandboxes->forks.Fork(kCaller, id, {.count = 1, .fingerprint = "f", .request_id = "r"},
                        [&](const auto& made) { children = made.value(); });
  loop.Run();
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  loop.Run();
  spawner.AnswerBuild();
  loop.Run();
  ASSERT_EQ(children.size(), 1U);
  using Texts = std::map<std::string, std::string>;
  EXPECT_EQ(children[0].metadata, (Texts{{"team", "ml"}}));
  EXPECT_EQ(children[0].spec.extensions, (Texts{{"mark", "1"}}));
  const auto snapshot = sandboxes->copies.TakeSnapshot(kCaller, id, "");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->metadata, (Texts{{"team", "ml"}}));
}

}  // namespace
}  // namespace atl::sandbox
