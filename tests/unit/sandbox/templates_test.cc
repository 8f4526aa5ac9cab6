// Templates among fakes: when members are built, made ready and claimed, and what remains of them.
#include "tests/unit/sandbox/templates_fixture.h"

namespace atl::sandbox {
namespace {

TEST_F(TemplatesTest, AMemberIsSeenByNobodyBeforeItsClaim) {
  const std::string id = Make();
  EXPECT_EQ(View(id).phase, Templates::Phase::kPending);
  const std::string member = BuildReady();
  EXPECT_TRUE(asked.starts_with("POST /.atoll/prepare HTTP/1.1\r\n")) << asked;
  EXPECT_EQ(View(id).phase, Templates::Phase::kSucceeded);
  EXPECT_EQ(View(id).ready, 1U);
  EXPECT_EQ(sandboxes->registry.Find(kCaller, member), nullptr);
  EXPECT_TRUE(sandboxes->registry.All(kCaller).empty());
  EXPECT_FALSE(sandboxes->endings.Delete(kCaller, member));
  EXPECT_FALSE(sandboxes->changes.PatchMetadata(kCaller, member, {{"a", "b"}}));
  const auto answer = Claim(Of(id));
  EXPECT_EQ(answer->result->id, member);
  EXPECT_EQ(answer->result->state, State::kRunning);
  EXPECT_EQ(answer->result->spec.entrypoint, std::vector<std::string>{"server"});
  EXPECT_TRUE(answer->result->expires_at_ms);
  EXPECT_NE(sandboxes->registry.Find(kCaller, member), nullptr);
  EXPECT_EQ(View(id).ready, 0U);
}

TEST_F(TemplatesTest, ACreateWaitsForTheNextMember) {
  const std::string id = Make();
  BuildReady();
  Claim(Of(id));
  const auto first = Create(Of(id));
  const auto second = Create(Of(id));
  EXPECT_FALSE(first->called || second->called);
  // Both are built at once, not one after the other.
  EXPECT_EQ(spawner.builds.size(), 2U);
  const std::string member = BuildOne(kReady);
  ASSERT_TRUE(first->called && first->result);
  EXPECT_EQ(first->result->id, member);
  EXPECT_FALSE(second->called);
  BuildOne(kReady);
  EXPECT_TRUE(second->called && second->result);
  EXPECT_EQ(sandboxes->templates.stats().waited, 2U);
}

TEST_F(TemplatesTest, WhatFailsSaysWhyAndIsTriedLaterAndLater) {
  const std::string id = Make();
  BuildOne(kUnready);
  EXPECT_EQ(View(id).phase, Templates::Phase::kFailed);
  EXPECT_EQ(View(id).trouble, "exit 3 x");
  const auto refused = Create(Of(id));
  ASSERT_TRUE(refused->called);
  EXPECT_EQ(refused->result.error().code(), Code::kNotFound);
  loop.Pass(1'500'000);
  EXPECT_TRUE(spawner.builds.empty());
  BuildOne(kUnready);
  loop.Pass(3'500'000);
  EXPECT_TRUE(spawner.builds.empty());
  loop.Pass(1'000'000);
  BuildReady();
  EXPECT_EQ(View(id).phase, Templates::Phase::kSucceeded);
  EXPECT_EQ(View(id).trouble, "");
}

TEST_F(TemplatesTest, ARefusedCreateTakesNothing) {
  const std::string id = Make();
  BuildReady();
  Wanted wanted = Of(id);
  wanted.timeout_seconds = int64_t{1} << 60;
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Create(Of("tpl-none"))->result.error().code(), Code::kNotFound);
  EXPECT_EQ(View(id).ready, 1U);
}

TEST_F(TemplatesTest, ARepeatedRequestGetsTheSame) {
  const std::string id = Make();
  BuildReady();
  Wanted wanted = Of(id);
  wanted.idempotency_key = "k";
  wanted.fingerprint = "f";
  const auto first = Claim(wanted);
  const auto again = Create(wanted);
  ASSERT_TRUE(again->called && again->result);
  EXPECT_EQ(again->result->id, first->result->id);
  wanted.idempotency_key = "waits";
  const auto waits = Create(wanted);
  const auto joins = Create(wanted);
  wanted.fingerprint = "another";
  EXPECT_EQ(Create(wanted)->result.error().code(), Code::kAlreadyExists);
  EXPECT_FALSE(waits->called || joins->called);
  BuildOne(kReady);
  ASSERT_TRUE(waits->called && joins->called);
  EXPECT_EQ(waits->result->id, joins->result->id);
}

TEST_F(TemplatesTest, ADaemonThatStartsKeepsWhatWasReady) {
  const std::string id = Make(2);
  const std::string ready = BuildReady();
  for (int i = 0; i < 20 && spawner.builds.empty(); ++i) loop.Pass(50'000);
  auto unready = spawner.AnswerBuild();
  loop.Run();
  wire::Greeting hello;
  for (const Sandbox& stored : Stored()) {
    EXPECT_TRUE(stored.stocked);
    wire::SandboxRecord record;
    record.id = stored.id;
    record.slot = stored.slot;
    hello.sandboxes.push_back(record);
    if (stored.id == ready) hello.frozen_slots.push_back(stored.slot);
  }
  ASSERT_EQ(hello.sandboxes.size(), 2U);
  Boot(hello);
  EXPECT_EQ(View(id).ready, 1U);
  EXPECT_EQ(View(id).phase, Templates::Phase::kSucceeded);
  EXPECT_TRUE(sandboxes->registry.All(kCaller).empty());
  EXPECT_EQ(Claim(Of(id))->result->id, ready);
  EXPECT_EQ(spawner.AnswerDestroy(), unready.id);
  loop.Run();
  for (const Sandbox& stored : Stored()) EXPECT_NE(stored.id, unready.id);
}

TEST_F(TemplatesTest, StockGivesWayToACreate) {
  config.budget.sandboxes = 2;
  Boot({});
  const std::string id = Make(2);
  BuildReady();
  BuildReady();
  EXPECT_EQ(View(id).ready, 2U);
  CreateRunning();
  EXPECT_EQ(View(id).ready, 1U);
  CreateRunning();
  EXPECT_EQ(View(id).ready, 0U);
  EXPECT_EQ(Create()->result.error().code(), Code::kResourceExhausted);
}

TEST_F(TemplatesTest, ARemovedTemplateLeavesNothingInStock) {
  const std::string id = Make();
  BuildReady();
  ASSERT_TRUE(sandboxes->templates.Remove(kCaller, id));
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_TRUE(Stored().empty());
  EXPECT_TRUE(template_store->Load()->empty());
  EXPECT_EQ(sandboxes->templates.Remove(kCaller, id).error().code(), Code::kNotFound);
}

TEST_F(TemplatesTest, AMemberThatEndsIsReplaced) {
  const std::string id = Make();
  const std::string member = BuildReady();
  Ended(member, Exit(3));
  spawner.AnswerDestroy();
  loop.Run();
  EXPECT_EQ(View(id).ready, 0U);
  EXPECT_NE(View(id).trouble.find("exit code 3"), std::string::npos);
  EXPECT_TRUE(Stored().empty());
  loop.Pass(2'500'000);
  EXPECT_NE(BuildReady(), member);
  EXPECT_EQ(View(id).ready, 1U);
}

}  // namespace
}  // namespace atl::sandbox
