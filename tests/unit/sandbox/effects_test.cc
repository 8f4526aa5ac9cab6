// The order in which a transition takes effect. Records each call that reaches the spawner, the
// loop, the images or a client, and the state of the store, the host's budget, the pool, the
// volumes, the history and the counters at that moment.
#include <numeric>
#include <variant>

#include "tests/unit/sandbox/sandboxes_fixture.h"

namespace atl::sandbox {
namespace {

class EffectsTest : public SandboxesTest {
 protected:
  EffectsTest() {
    EXPECT_TRUE(sandboxes->pools.Create(
        kCaller, {.key = "warm", .image = "busybox", .capacity = {1, 1, 0, 10}}));
    loop.Pass(50'000);
    parked = spawner.AnswerBuild().control;
    loop.Run();
  }

  ~EffectsTest() override {
    loop.on_call = nullptr;
    images.on_collect = nullptr;
    spawner.on_message = nullptr;
  }

  // A create that has one of everything that a transition may change.
  static Wanted WantAll() {
    Wanted wanted = Want();
    wanted.spec.extensions[kPoolRef] = "warm";
    wanted.spec.volumes = {{wire::Volume::Kind::kNamed, "data", "", "/data", false}};
    wanted.mounts = {{.volume = wanted.spec.volumes.front()}};
    wanted.spec.idle = {300, false};
    wanted.timeout_seconds = 600;
    return wanted;
  }
  // Creates a running sandbox without recording.
  std::string RunOne(Wanted wanted = WantAll()) {
    auto answer = Create(std::move(wanted));
    if (!spawner.volume_calls.empty()) spawner.AnswerVolume();
    loop.Run();
    execd = std::move(spawner.AnswerBuild().control);
    loop.Run();
    EXPECT_TRUE(answer->called && answer->result);
    return answer->result->id;
  }

  void Watch() {
    last = Look();
    loop.on_call = [this](const char* call) { Saw(call); };
    images.on_collect = [this] { Saw("layers collected"); };
    spawner.on_message = [this](const wire::Message& message) {
      if (std::holds_alternative<wire::Destroy>(message)) return Saw("spawner destroys");
      if (std::holds_alternative<wire::Build>(message)) return Saw("spawner builds");
      if (std::holds_alternative<wire::Freeze>(message)) return Saw("spawner freezes or thaws");
    };
  }
  // Returns the calls since the last call of Seen.
  std::vector<std::string> Seen() { return std::exchange(seen, {}); }
  void Saw(const std::string& what) {
    const std::map<std::string, std::string> now = Look();
    std::string line = what;
    for (const auto& [fact, value] : now) {
      if (value != last[fact]) line += ", " + fact + " " + value;
    }
    last = now;
    seen.push_back(std::move(line));
  }
  std::map<std::string, std::string> Look() {
    std::map<std::string, std::string> facts;
    facts["store"] = "-";
    for (const Sandbox& one : Stored()) facts["store"] = StateName(one.state);
    facts["room"] = std::to_string(sandboxes->room.held().sandboxes);
    facts["pool"] = std::to_string(sandboxes->pools.Find(kCaller, "warm")->allocated);
    const auto volume = volumes->Find(kCaller, "data");
    facts["users"] = std::to_string(volume ? volume->used_by.size() : 0);
    facts["history"] = std::to_string(history->FeedOf(kCaller).last);
    const auto& ends = sandboxes->endings.ends();
    facts["ends"] = std::to_string(std::accumulate(ends.begin(), ends.end(), uint64_t{0}));
    facts["layers"] = sandboxes->layers.InUse(1) ? "used" : "free";
    return facts;
  }

  using Lines = std::vector<std::string>;
  UniqueFd parked;
  std::map<std::string, std::string> last;
  std::vector<std::string> seen;
};

TEST_F(EffectsTest, Create) {
  Watch();
  sandboxes->orders.Create(kCaller, WantAll(),
                           [this](const tl::expected<Sandbox, CreateError>& made) {
                             Saw(made ? "answered" : "refused");
                           });
  loop.Run();
  Seen();
  spawner.AnswerVolume();
  loop.Run();
  EXPECT_EQ(Seen(), (Lines{"spawner builds, users 1"}));
  spawner.AnswerBuild();
  EXPECT_EQ(Seen(), (Lines{"timer set, store Running", "posted, history 1", "answered", "timer set",
                           "posted"}));
}

TEST_F(EffectsTest, PauseAndResume) {
  const std::string id = RunOne();
  Watch();
  sandboxes->pauses.Pause(kCaller, id, [this](const Status&) { Saw("answered"); });
  EXPECT_EQ(Seen(), (Lines{"timer cancelled, store Pausing", "posted, history 2",
                           "spawner freezes or thaws"}));
  spawner.AnswerFreeze();
  EXPECT_EQ(Seen(), (Lines{"answered, history 3, store Paused"}));
  sandboxes->pauses.Resume(kCaller, id, [this](const Status&) { Saw("answered"); });
  EXPECT_EQ(Seen(), (Lines{"spawner freezes or thaws, history 4, store Resuming"}));
  spawner.AnswerFreeze();
  EXPECT_EQ(Seen(), (Lines{"timer set, store Running", "answered, history 5"}));
}

TEST_F(EffectsTest, Exit) {
  const std::string id = RunOne();
  Watch();
  Ended(id, atl::sandbox::Exit(0));
  EXPECT_EQ(Seen(), (Lines{"timer cancelled, store Terminated", "posted, ends 1, history 2",
                           "spawner destroys"}));
  spawner.AnswerDestroy();
  EXPECT_EQ(Seen(), (Lines{"layers collected, room 0"}));
}

TEST_F(EffectsTest, Delete) {
  const std::string id = RunOne();
  Watch();
  EXPECT_TRUE(sandboxes->endings.Delete(kCaller, id));
  EXPECT_EQ(Seen(), (Lines{"timer cancelled, pool 0, store Stopping, users 0",
                           "posted, ends 1, history 2", "spawner destroys"}));
  spawner.AnswerDestroy();
  EXPECT_EQ(Seen(), (Lines{"layers collected, room 0"}));
}

TEST_F(EffectsTest, DeleteOfOneThatIsBuilt) {
  sandboxes->orders.Create(kCaller, WantAll(),
                           [this](const tl::expected<Sandbox, CreateError>& made) {
                             Saw(made ? "answered" : "refused");
                           });
  loop.Run();
  spawner.AnswerVolume();
  loop.Run();
  Watch();
  Seen();
  EXPECT_TRUE(sandboxes->endings.Delete(kCaller, spawner.builds.front().id));
  EXPECT_EQ(Seen(), (Lines{"posted, history 1, pool 0, users 0"}));
  spawner.AnswerBuild();
  EXPECT_EQ(Seen(), (Lines{"refused", "spawner destroys", "posted"}));
}

TEST_F(EffectsTest, RollBack) {
  Wanted wanted = WantAll();
  const std::string id = RunOne(wanted);
  const std::string snapshot = sandboxes->copies.TakeSnapshot(kCaller, id, "")->id;
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  sandboxes->rollbacks.RollBack(kCaller, id, {snapshot, "", "", "r"},
                                [this](const tl::expected<Sandbox, CreateError>& made) {
                                  Saw(made ? "answered" : "refused");
                                });
  loop.Run();
  Watch();
  execd = std::move(spawner.AnswerBuild().control);
  EXPECT_EQ(Seen(), (Lines{"layers collected, store Pending", "timer cancelled",
                           "posted, history 2", "spawner destroys", "posted"}));
  spawner.AnswerDestroy();
  EXPECT_EQ(Seen(), (Lines{"layers collected", "timer set, store Running", "answered, history 3"}));
}

}  // namespace
}  // namespace atl::sandbox
