// The diagnostics that are kept of a sandbox.
#include "runtime/wire/output.h"

#include <sys/socket.h>

#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class DiagnosticsTest : public SandboxesTest {
 protected:
  DiagnosticsTest() {
    log_config.directory = directory + "/logs";
    Boot({});
  }
  // Plays execd: reports that it has started, then sends this output.
  void Start(const std::string& output) {
    wire::OutputFrame frame;
    frame.bytes = output;
    const std::string all = wire::Frame(wire::StartReport().Encode()) + frame.Encode();
    ASSERT_EQ(::send(execd.get(), all.data(), all.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(all.size()));
  }
  static wire::SandboxRecord Ended(const std::string& id) {
    wire::SandboxRecord record;
    record.id = id;
    record.exited = true;
    return record;
  }
  void Settle() {
    for (int i = 0; i < 5; ++i) {
      loop.Poll();
      loop.Pass(5'000);
    }
  }
  std::string Log(const std::string& id) {
    std::string text;
    logs->Read(id, std::make_shared<LogReader>(LogQuery()),
               [&](std::string read) { text = std::move(read); });
    loop.Run();
    return text;
  }
};

TEST_F(DiagnosticsTest, OutputBehindTheReportIsKept) {
  const std::string id = CreateRunning();
  Start("hello\n");
  Settle();
  EXPECT_NE(Log(id).find(" hello\n"), std::string::npos);
  sandboxes->reconciler.OnExit(Ended(id));
  EXPECT_NE(Log(id).find(" hello\n"), std::string::npos);
}

TEST_F(DiagnosticsTest, AnExitThatOvertakesTheReportLosesNothing) {
  const std::string id = CreateRunning();
  Start("last words\n");
  execd.reset();
  // The loop reads the spawner's socket before the control socket.
  sandboxes->reconciler.OnExit(Ended(id));
  Settle();
  EXPECT_NE(Log(id).find(" last words\n"), std::string::npos);
}

TEST_F(DiagnosticsTest, WhoeverHasLostExecdHearsOfTheEnd) {
  const std::string id = CreateRunning();
  int heard = 0;
  const auto hear = [&] { ++heard; };
  sandboxes->endings.AwaitEnd(kCaller, id, hear);
  Settle();
  EXPECT_EQ(heard, 0);
  sandboxes->reconciler.OnExit(Ended(id));
  Settle();
  EXPECT_EQ(heard, 1);
  sandboxes->endings.AwaitEnd(kCaller, "nosuch", hear);
  EXPECT_EQ(heard, 2);
  // The sandbox lives on. Nobody may wait for ever.
  sandboxes->endings.AwaitEnd(kCaller, CreateRunning(), hear);
  for (int i = 0; i < 250; ++i) Settle();
  EXPECT_EQ(heard, 3);
}

TEST_F(DiagnosticsTest, AFailedStartEndsTheWatching) {
  const std::string id = CreateRunning();
  bool ended = false;
  EXPECT_NE(logs->Watch(id, true, [&](bool end) { ended = end; }), 0U);
  ReportFailure("exec /nope: No such file or directory");
  execd.reset();
  Settle();
  EXPECT_TRUE(ended);
}

TEST_F(DiagnosticsTest, TheHistoryHasWhatHappened) {
  Wanted wanted = Want();
  wanted.timeout_seconds = 3600;
  const std::string id = CreateRunning(wanted);
  ASSERT_TRUE(sandboxes->changes.Renew(kCaller, id, clock.unix_ms + 7'200'000));
  sandboxes->reconciler.OnExit(Ended(id));
  loop.Run();
  EXPECT_EQ(Kinds(id), "Running Renewed Terminated ");
  spawner.AnswerDestroy();
  ASSERT_TRUE(sandboxes->endings.Delete(kCaller, id));
  loop.Pass(100'000);
  EXPECT_EQ(Kinds(id), "Running Renewed Terminated Deleted ");
}

}  // namespace
}  // namespace atl::sandbox
