// The history of sandboxes that are gone.
#include "runtime/sandbox/ends/departures.h"

#include <sys/socket.h>

#include <filesystem>

#include "runtime/sandbox/store/record_text.h"
#include "runtime/wire/output.h"
#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kDay = 86'400 * kSecond;

class DeparturesTest : public SandboxesTest {
 protected:
  DeparturesTest() {
    log_config.directory = directory + "/logs";
    config.recordings = directory + "/recordings";
    Boot({});
  }
  // Creates a sandbox that prints `output`, and deletes it.
  std::string Gone(const std::string& output = "", Wanted wanted = Want()) {
    const std::string id = CreateRunning(std::move(wanted));
    Print(output);
    EXPECT_TRUE(sandboxes->endings.Delete(who, id));
    loop.Run();
    spawner.AnswerDestroy();
    execd.reset();
    Settle();
    return id;
  }
  void Print(const std::string& output) {
    std::string all = wire::Frame(wire::StartReport().Encode());
    if (!output.empty()) {
      wire::OutputFrame frame;
      frame.bytes = output;
      all += frame.Encode();
    }
    ASSERT_EQ(::send(execd.get(), all.data(), all.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(all.size()));
    Settle();
  }
  void Settle() {
    for (int i = 0; i < 5; ++i) {
      loop.Poll();
      loop.Pass(5'000);
    }
  }
  std::optional<GoneSandbox> Find(const std::string& id,
                                  const tenants::Caller& caller = tenants::Caller::Daemon()) {
    auto found = sandboxes->departures.Find(caller, id);
    EXPECT_TRUE(found) << found.error().message();
    return found ? std::move(*found) : std::nullopt;
  }
  bool HasLog(const std::string& id) const {
    return std::filesystem::exists(log_config.directory + "/" + id);
  }
  bool HasRecordings(const std::string& id) const {
    return std::filesystem::exists(config.recordings + "/" + id);
  }
  std::shared_ptr<Recording> Record(const std::string& id) {
    auto begun =
        sandboxes->recordings.Begin({.sandbox = id}, sandboxes->departures.RoomToRecord(who.tenant),
                                    clock.unix_ms, clock.boot_us);
    return begun ? *begun : nullptr;
  }
  Departures::Stats Stats() { return sandboxes->departures.stats(); }
  uint64_t DroppedFor(Dropped why) { return Stats().dropped[static_cast<size_t>(why)]; }
};

TEST_F(DeparturesTest, ADeletedSandboxIsFoundAtOnceAndForGood) {
  Wanted wanted = Want();
  wanted.metadata = {{"team", "red"}};
  const std::string id = CreateRunning(wanted);
  Print("last words\n");
  EXPECT_FALSE(Find(id)) << "it is there";
  const wire::SandboxRecord present = Present(id);
  ASSERT_TRUE(sandboxes->endings.Delete(who, id));
  ASSERT_TRUE(Find(id)) << "while what it holds is released";
  EXPECT_EQ(sandboxes->departures.Leaving(who).size(), 1U);
  // Killed before the release is done: the next daemon finishes it.
  loop.Run();
  spawner.destroys.clear();
  Boot({.sandboxes = {present}});
  ASSERT_TRUE(Find(id));
  spawner.AnswerDestroy();
  Settle();
  EXPECT_EQ(sandboxes->registry.Look(id), nullptr);
  for (int start = 0; start < 2; ++start) {
    const auto gone = Find(id);
    ASSERT_TRUE(gone);
    EXPECT_EQ(gone->sandbox.reason, "USER_DELETE");
    EXPECT_EQ(gone->sandbox.metadata.at("team"), "red");
    EXPECT_EQ(gone->log, id);
    EXPECT_TRUE(HasLog(id));
    EXPECT_EQ(Kinds(id), "Running Deleted ");
    EXPECT_EQ(Stats().entries, 1U);
    EXPECT_GT(Stats().bytes, std::filesystem::file_size(log_config.directory + "/" + id + "/log"));
    Boot({});
    Settle();
  }
  EXPECT_TRUE(sandboxes->departures.Leaving(who).empty());
}

TEST_F(DeparturesTest, TellsHowASandboxEndedThatIsDeletedLater) {
  const std::string id = CreateRunning();
  Ended(id, Exit(3));
  loop.Run();
  spawner.AnswerDestroy();
  Boot({});
  EXPECT_FALSE(Find(id)) << "it can be read yet";
  ASSERT_TRUE(sandboxes->endings.Delete(who, id));
  const auto gone = Find(id);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->sandbox.state, State::kFailed);
  EXPECT_EQ(gone->sandbox.message, "exit code 3");
  EXPECT_EQ(gone->log, "");
}

TEST_F(DeparturesTest, HasTheDenials) {
  const std::string id = CreateRunning();
  network.denials = {{.time_ms = 5, .hostname = "evil.example", .reason = "policy"}};
  Ended(id, Exit(0));
  loop.Run();
  network.denials.clear();
  spawner.AnswerDestroy();
  Boot({});
  ASSERT_TRUE(sandboxes->endings.Delete(who, id));
  ASSERT_TRUE(Find(id));
  ASSERT_EQ(Find(id)->sandbox.denials.size(), 1U);
  EXPECT_EQ(Find(id)->sandbox.denials.front().hostname, "evil.example");
}

TEST_F(DeparturesTest, AShutdownIsAnEndToo) {
  const std::string id = CreateRunning();
  Print("x\n");
  sandboxes->reconciler.Shutdown([](const Status&) {});
  loop.Run();
  execd.reset();
  Settle();
  Boot({});
  const auto gone = Find(id);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->sandbox.reason, "SHUTDOWN");
  EXPECT_TRUE(HasLog(id));
  EXPECT_EQ(Kinds(id), "Running Deleted ");
}

TEST_F(DeparturesTest, EntriesAreKeptForTheirTime) {
  config.history.keep_seconds = 3 * 86400;
  Boot({});
  const std::string first = Gone("x\n");
  loop.Pass(2 * kDay);
  const std::string second = Gone("y\n");
  loop.Pass(kDay + 120 * kSecond);
  EXPECT_FALSE(Find(first));
  EXPECT_FALSE(HasLog(first));
  EXPECT_EQ(Kinds(first), "");
  EXPECT_TRUE(sandboxes->registry.IsGone(who, first)) << "its id is remembered";
  EXPECT_TRUE(Find(second));
  EXPECT_TRUE(HasLog(second));
  EXPECT_EQ(DroppedFor(Dropped::kAge), 1U);
  // Time goes on while no daemon runs.
  clock.unix_ms += 3 * 86'400'000LL;
  Boot({});
  loop.Pass(kSecond);
  EXPECT_FALSE(Find(second));
  EXPECT_EQ(Stats().entries, 0U);
  EXPECT_EQ(Stats().bytes, 0U);
}

TEST_F(DeparturesTest, TheOldestOfATenantGoFirst) {
  tenants.Replace({{.name = "red", .history = {.max_bytes = 40 << 10}}, {.name = "blue"}});
  const std::string text(10 << 10, 'x');
  who.tenant = "blue";
  const std::string other = Gone(text);
  who.tenant = "red";
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    clock.unix_ms += 1000;
    ids.push_back(Gone(text));
  }
  loop.Pass(kSecond);
  EXPECT_FALSE(Find(ids[0]));
  EXPECT_FALSE(HasLog(ids[0]));
  EXPECT_TRUE(Find(ids[4]));
  EXPECT_TRUE(Find(other)) << "one tenant pushes nothing of another out";
  EXPECT_GT(DroppedFor(Dropped::kSize), 0U);
  EXPECT_LE(Stats().bytes, (40U << 10) + (12U << 10));
  // A tenant reads its own.
  EXPECT_FALSE(Find(ids[4], tenants::Caller{.tenant = "blue"}));
  EXPECT_TRUE(Find(ids[4], tenants::Caller{.tenant = "red"}));
}

TEST_F(DeparturesTest, WithoutAHistoryNothingIsKept) {
  config.history.keep_seconds = 0;
  Boot({});
  const std::string id = CreateRunning();
  Print("x\n");
  ASSERT_TRUE(sandboxes->endings.Delete(who, id));
  EXPECT_FALSE(Find(id));
  EXPECT_TRUE(sandboxes->departures.Leaving(who).empty());
  loop.Run();
  spawner.AnswerDestroy();
  Settle();
  EXPECT_FALSE(Find(id));
  EXPECT_FALSE(HasLog(id));
  EXPECT_EQ(Kinds(id), "");
  EXPECT_TRUE(sandboxes->registry.IsGone(who, id));
}

TEST_F(DeparturesTest, ATenantMayHaveNone) {
  tenants.Replace({{.name = "red", .history = {.keep_seconds = 0}}});
  who.tenant = "red";
  EXPECT_FALSE(Find(Gone("x\n")));
}

TEST_F(DeparturesTest, RecordingsStayWithTheirSandboxAndItsEntry) {
  constexpr uint64_t kBytes = 100'000;
  config.history.max_bytes = 1 << 20;
  Boot({});
  const std::string id = CreateRunning();
  // One that is being written counts as it is: its reservation is not the history's.
  const auto recording = Record(id);
  ASSERT_NE(recording, nullptr);
  ASSERT_TRUE(recording->Output(std::string(kBytes, 'x'), 0));
  Boot({.sandboxes = {Present(id)}});
  EXPECT_TRUE(HasRecordings(id));
  EXPECT_LT(sandboxes->departures.RoomToRecord(""), (1U << 20) - kBytes);
  const auto other = Record(id);
  ASSERT_TRUE(sandboxes->endings.Delete(who, id));
  loop.Run();
  spawner.AnswerDestroy();
  execd.reset();
  Settle();
  EXPECT_EQ(sandboxes->departures.RoomToRecord(""), 1U << 20) << "that of living sandboxes";
  ASSERT_TRUE(Find(id));
  EXPECT_GT(Find(id)->bytes, kBytes);
  EXPECT_LT(Find(id)->bytes, kBytes + 20'000);
  EXPECT_TRUE(HasRecordings(id));
  Boot({});
  EXPECT_TRUE(HasRecordings(id));
  sandboxes->departures.GiveUp();
  loop.Run();
  EXPECT_FALSE(HasRecordings(id));
}

TEST_F(DeparturesTest, RecordingsGoWithTheirSandboxWithoutAHistory) {
  config.history.keep_seconds = 0;
  Boot({});
  const std::string id = CreateRunning();
  ASSERT_NE(Record(id), nullptr);
  ASSERT_TRUE(sandboxes->endings.Delete(who, id));
  loop.Run();
  spawner.AnswerDestroy();
  Settle();
  EXPECT_FALSE(HasRecordings(id));
  // Those of nobody go with the next start.
  std::filesystem::create_directories(config.recordings + "/" + id);
  Boot({});
  EXPECT_FALSE(HasRecordings(id));
}

TEST_F(DeparturesTest, GivesWayOnAFullDisk) {
  const std::string id = Gone("x\n");
  sandboxes->departures.GiveUp();
  loop.Run();
  EXPECT_FALSE(Find(id));
  EXPECT_FALSE(HasLog(id));
  EXPECT_EQ(DroppedFor(Dropped::kFullDisk), 1U);
}

TEST_F(DeparturesTest, ACreateThatFailedHasNoHistory) {
  const auto answer = Create();
  const std::string id = spawner.AnswerBuild(Fail(Code::kInternal, "no")).id;
  EXPECT_FALSE(answer->result);
  EXPECT_TRUE(sandboxes->departures.Leaving(who).empty());
  while (!spawner.destroys.empty()) spawner.AnswerDestroy();
  Settle();
  EXPECT_EQ(Stats().entries, 0U);
  EXPECT_EQ(Stats().dropped[static_cast<size_t>(Dropped::kFullDisk)], 0U);
}

TEST_F(DeparturesTest, AMemberOfAStockHasNoHistory) {
  const std::string id = CreateRunning();
  sandboxes->registry.Look(id)->stocked = true;
  ASSERT_TRUE(sandboxes->departures.Leave(*sandboxes->registry.Look(id)));
  Boot({});
  EXPECT_FALSE(Find(id));
}

}  // namespace
}  // namespace atl::sandbox
