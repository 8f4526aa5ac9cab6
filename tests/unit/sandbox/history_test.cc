#include "runtime/sandbox/store/history.h"

#include <gtest/gtest.h>

#include "runtime/sandbox/store/schema.h"
#include "tests/unit/sandbox/event_kinds.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

Sandbox Of(const std::string& id, const std::string& tenant = "") {
  Sandbox sandbox;
  sandbox.id = id;
  sandbox.tenant = tenant;
  return sandbox;
}

class HistoryTest : public testing::Test {
 protected:
  void Open() { history = std::move(*History::Open(db, loop)); }
  HistoryTest() { Open(); }
  std::string Kinds(const std::string& id) { return KindsOf(*history, id); }

  FakeClock clock;
  FakeLoop loop{clock};
  sqlite::Db db = std::move(*OpenRecords(":memory:", {}));
  std::unique_ptr<History> history;
};

TEST_F(HistoryTest, KeepsTheOrderOfEach) {
  history->Add(Of("a"), {5, "Running", "R", "m"});
  history->Add(Of("b"), {6, "Running", "R", "m"});
  history->Add(Of("a"), {7, "Failed", "F", "why"});
  loop.Run();
  EXPECT_EQ(Kinds("a"), "Running Failed ");
  EXPECT_EQ(Kinds("b"), "Running ");
  EXPECT_EQ(Kinds("c"), "");
  EXPECT_EQ(history->Find("a")->at(1).message, "why");
  EXPECT_EQ(history->Find("a")->at(1).time_ms, 7);
  // Another daemon reads the same history.
  history.reset();
  Open();
  EXPECT_EQ(Kinds("a"), "Running Failed ");
}

TEST_F(HistoryTest, AnswersBeforeItHasWritten) {
  history->Add(Of("a"), {5, "Running", "", ""});
  EXPECT_EQ(Kinds("a"), "Running ");
}

TEST_F(HistoryTest, IsBounded) {
  for (int i = 0; i < 200; ++i) history->Add(Of("a"), {i, "e" + std::to_string(i), "", ""});
  loop.Run();
  const auto events = history->Find("a");
  ASSERT_EQ(events->size(), static_cast<size_t>(History::kMaxEvents));
  EXPECT_EQ(events->front().kind, "e136");
  EXPECT_EQ(events->back().kind, "e199");
}

TEST_F(HistoryTest, ForgetsWhatIsGone) {
  history->Add(Of("a"), {1, "x", "", ""});
  loop.Run();
  history->Add(Of("a"), {2, "y", "", ""});
  history->Add(Of("b"), {2, "y", "", ""});
  history->Remove("a");
  loop.Run();
  EXPECT_EQ(Kinds("a"), "");
  EXPECT_EQ(Kinds("b"), "y ");
}

TEST_F(HistoryTest, RemovesStraysAtTheStart) {
  for (const char* id : {"lives", "kept", "gone", "never"}) history->Add(Of(id), {1, "x", "", ""});
  loop.Run();
  ASSERT_TRUE(
      db.Exec("INSERT INTO sandboxes (id, moves, record) VALUES ('lives', '{}', '{}');"
              "INSERT INTO gone (id, record) VALUES ('kept', '{}'), ('gone', NULL)"));
  ASSERT_TRUE(history->RemoveStrays());
  for (const char* id : {"lives", "kept"}) EXPECT_EQ(Kinds(id), "x ") << id;
  for (const char* id : {"gone", "never"}) EXPECT_EQ(Kinds(id), "") << id;
}

TEST_F(HistoryTest, ATenantFollowsItsOwnEventsByNumbersOfItsOwn) {
  history->Add(Of("a", "red"), {1, "Running", "", ""});
  for (size_t i = 0; i < History::kRecent; ++i) history->Add(Of("b", "blue"), {2, "x", "", ""});
  history->Add(Of("c"), {3, "Running", "", ""});
  history->Add(Of("a", "red"), {4, "Failed", "", ""});
  const EventFeed& red = history->FeedOf(tenants::Caller{.tenant = "red"});
  ASSERT_EQ(red.recent.size(), 2U) << "events of others push none of a tenant's out";
  EXPECT_EQ(red.recent[1].event.kind, "Failed");
  EXPECT_EQ(red.recent[1].number, 2U);
  EXPECT_EQ(red.last, 2U);
  EXPECT_EQ(history->FeedOf(tenants::Caller{.tenant = "green"}).last, 0U);
  EXPECT_EQ(history->FeedOf(tenants::Caller::Daemon()).last, History::kRecent + 3);
}

}  // namespace
}  // namespace atl::sandbox
