// Each kind of request against each failure that can be forced upon it. A failed request leaves
// nothing behind, and the same request with the same key succeeds afterwards.
#include "runtime/sandbox/state/attempt.h"

#include <algorithm>
#include <set>

#include "runtime/sandbox/copies/forks.h"
#include "runtime/sandbox/copies/rollbacks.h"
#include "tests/unit/sandbox/templates_fixture.h"

namespace atl::sandbox {
namespace {

// kClaim: claims a template's ready member. kWait: waits for a member that is still to be built.
enum class Kind { kCreate, kVolume, kPool, kClaim, kWait, kFork, kRollback };
enum class Failure {
  kNetwork,   // the slot cannot be given its network, or its policy
  kBuild,     // the spawner cannot build it
  kNoRecord,  // the record cannot be written
  kTooMany,   // the queue of builds is full
  kDeleted,   // a client deletes it
  kNoVolume,  // its volume cannot be made
  kNoCopy,    // the files of its parent cannot be copied
  kHung,      // the spawner does not answer the thaw
  kEnded,     // process 1 ends before it is resumed
  kShutDown,  // process 1 ends, and so does the daemon
};

struct Case {
  Kind kind;
  Failure failure;
  bool refused;  // the failure is a refusal, because of the request or of the host's limits
};

std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << "kind " << static_cast<int>(of.kind) << ", failure "
             << static_cast<int>(of.failure);
}

class AttemptTest : public TemplatesTest, public testing::WithParamInterface<Case> {
 protected:
  struct Asked {
    int called = 0;
    std::optional<Error> error;
    std::set<std::string> ids;
  };

  void SetUp() override {
    build_queue = 1;
    Boot({});
    switch (GetParam().kind) {
      case Kind::kPool:
        ASSERT_TRUE(sandboxes->pools.Create(
            kCaller, {.key = "warm", .image = "busybox", .capacity = {1, 1, 0, 10}}));
        loop.Pass(50'000);
        execds.push_back(spawner.AnswerBuild().control);
        loop.Run();
        break;
      case Kind::kClaim:
      case Kind::kWait:
        template_id = Make();
        BuildReady();
        if (GetParam().kind == Kind::kClaim) break;
        parent = Claim(Of(template_id))->result->id;
        break;
      case Kind::kFork:
      case Kind::kRollback:
        parent = CreateRunning();
        snapshot = sandboxes->copies.TakeSnapshot(kCaller, parent, "")->id;
        spawner.AnswerCopy();
        spawner.AnswerPublish();
        break;
      default:
        break;
    }
    before = State();
  }

  std::shared_ptr<Asked> Ask(const std::string& fingerprint = "f") {
    auto answer = std::make_shared<Asked>();
    const auto all = [answer](const tl::expected<std::vector<Sandbox>, CreateError>& made) {
      ++answer->called;
      if (!made) answer->error = made.error();
      if (made) {
        for (const Sandbox& one : *made) answer->ids.insert(one.id);
      }
    };
    const auto one = [all](const tl::expected<Sandbox, CreateError>& made) {
      if (made) return all(std::vector{*made});
      all(tl::unexpected(made.error()));
    };
    const Kind kind = GetParam().kind;
    if (kind == Kind::kFork) {
      sandboxes->forks.Fork(kCaller, parent, {2, "k", fingerprint, "r"}, all);
    } else if (kind == Kind::kRollback) {
      sandboxes->rollbacks.RollBack(kCaller, parent, {snapshot, "k", fingerprint, "r"}, one);
    } else {
      Wanted wanted = kind == Kind::kClaim || kind == Kind::kWait ? Of(template_id) : Want();
      if (kind == Kind::kPool) wanted.spec.extensions[kPoolRef] = "warm";
      if (kind == Kind::kVolume) {
        wanted.spec.volumes = {{wire::Volume::Kind::kNamed, "data", "", "/data", false}};
        wanted.mounts = {{.volume = wanted.spec.volumes.front()}};
      }
      wanted.metadata = {{kName, "box"}};
      wanted.spec.unique_name = true;
      wanted.spec.network.policy =
          netpolicy::Share({.default_action = netpolicy::Action::kDeny, .rules = {}});
      wanted.idempotency_key = "k";
      wanted.fingerprint = fingerprint;
      sandboxes->orders.Create(kCaller, wanted, one);
    }
    loop.Run();
    return answer;
  }

  // Answers everything that the request waits for before its build.
  void ReachBuild() {
    if (!spawner.volume_calls.empty()) spawner.AnswerVolume();
    if (!spawner.copies.empty()) {
      spawner.AnswerCopy();
      spawner.AnswerPublish();
    }
    loop.Run();
  }
  // Lets everything else succeed.
  void CarryOn(const Asked& answer) {
    ReachBuild();
    if (answer.called != 0 && spawner.builds.empty()) return;
    if (!template_id.empty() && spawner.freezes.empty()) {
      BuildOne(kReady);
      return;
    }
    if (!spawner.freezes.empty()) spawner.AnswerFreeze();
    while (!spawner.builds.empty()) {
      execds.push_back(spawner.AnswerBuild().control);
      loop.Run();
    }
    if (GetParam().kind == Kind::kRollback && !spawner.destroys.empty()) spawner.AnswerDestroy();
    loop.Run();
  }
  std::shared_ptr<Asked> Provoke() {
    std::shared_ptr<Asked> answer;
    switch (GetParam().failure) {
      case Failure::kNetwork:
        network.claim_error = Error(Code::kInternal, "no network");
        answer = Ask();
        CarryOn(*answer);
        network.claim_error.reset();
        return answer;
      case Failure::kBuild:
        answer = Ask();
        ReachBuild();
        spawner.AnswerBuild(Fail(Code::kInternal, "step mounts: no"));
        loop.Run();
        // Answers the build of a sibling.
        while (!spawner.builds.empty()) spawner.AnswerBuild();
        return answer;
      case Failure::kNoRecord:
        EXPECT_TRUE(store->db().Exec("ALTER TABLE sandboxes RENAME TO away"));
        answer = Ask();
        // A member without a record is not made ready.
        if (GetParam().kind == Kind::kWait) spawner.AnswerBuild();
        CarryOn(*answer);
        EXPECT_TRUE(store->db().Exec("ALTER TABLE away RENAME TO sandboxes"));
        return answer;
      case Failure::kTooMany: {
        std::vector<std::shared_ptr<Answer>> others;
        for (int i = 0; i < 3; ++i) others.push_back(Create());
        answer = Ask();
        ReachBuild();
        while (!spawner.builds.empty()) {
          spawner.AnswerBuild();
          loop.Run();
        }
        for (const auto& other : others)
          EXPECT_TRUE(sandboxes->endings.Delete(kCaller, other->result->id));
        return answer;
      }
      case Failure::kDeleted: {
        answer = Ask();
        ReachBuild();
        const bool claim = GetParam().kind == Kind::kClaim;
        const std::string id = GetParam().kind == Kind::kRollback ? parent
                               : claim ? spawner.freezes.front().what.substr(strlen("thaw "))
                                       : spawner.builds.front().id;
        EXPECT_TRUE(sandboxes->endings.Delete(kCaller, id));
        spawner.freezes.clear();
        CarryOn(*answer);
        return answer;
      }
      case Failure::kNoVolume:
        answer = Ask();
        spawner.AnswerVolume(Fail(Code::kInternal, "no"));
        return answer;
      case Failure::kNoCopy:
        answer = Ask();
        spawner.AnswerCopy(Fail(Code::kUnavailable, "gone"));
        return answer;
      case Failure::kHung:
        answer = Ask();
        spawner.AnswerFreeze(Fail(Code::kUnavailable, "no spawner"));
        loop.Pass(6 * kSecond);
        return answer;
      case Failure::kEnded:
        answer = Ask();
        Ended(spawner.freezes.front().what.substr(strlen("thaw ")), Exit(1));
        spawner.freezes.clear();
        loop.Run();
        return answer;
      case Failure::kShutDown:
        answer = Ask();
        sandboxes->reconciler.Shutdown([](const Status&) {});
        loop.Run();
        return answer;
    }
    return answer;
  }

  // Everything that a request could leave behind.
  struct Left {
    std::set<std::string> visible, recorded, keys, volumes;
  };
  Left State() {
    Left left;
    for (const Sandbox* one : sandboxes->registry.All(kCaller)) left.visible.insert(one->id);
    for (const Sandbox& one : Stored()) {
      if (!one.stocked) left.recorded.insert(one.id);
    }
    const auto keys = store->LoadKeys();
    for (const KeyRecord& key : *keys) left.keys.insert(key.key);
    for (const Volumes::View& volume : volumes->List(kCaller)) left.volumes.insert(volume.name);
    return left;
  }
  void Settle() {
    loop.Run();
    while (!spawner.destroys.empty() || !spawner.volume_calls.empty()) {
      if (!spawner.destroys.empty()) spawner.AnswerDestroy();
      if (!spawner.volume_calls.empty()) spawner.AnswerVolume();
      loop.Run();
    }
  }

  Left before;
  std::string template_id, parent, snapshot;
};

OriginStats Sum(const CreateStats& stats) {
  OriginStats sum;
  for (const OriginStats& origin : stats.origins) {
    sum.ok += origin.ok;
    sum.refused += origin.refused;
    sum.error += origin.error;
  }
  return sum;
}

TEST_P(AttemptTest, LeavesNothingAndCanBeRepeated) {
  const OriginStats before_it = Sum(sandboxes->creates.stats());
  const auto first = Provoke();
  ASSERT_EQ(first->called, 1);
  ASSERT_TRUE(first->error);
  Settle();
  const RollbackStats& rollbacks = sandboxes->rollbacks.stats();
  const bool rollback = GetParam().kind == Kind::kRollback;
  const OriginStats created = Sum(sandboxes->creates.stats());
  const uint64_t refused = rollback ? rollbacks.refused : created.refused;
  const uint64_t failed = rollback ? rollbacks.failed : created.error;
  const uint64_t of = GetParam().kind == Kind::kFork ? 2 : 1;
  EXPECT_EQ(refused, GetParam().refused ? of : 0) << first->error->message();
  EXPECT_EQ(failed, GetParam().refused ? 0 : of) << first->error->message();
  EXPECT_EQ(created.ok - before_it.ok, GetParam().failure == Failure::kTooMany ? 3U : 0U);
  if (GetParam().failure == Failure::kShutDown) return;
  const Left after = State();
  const bool gone = rollback && GetParam().failure == Failure::kDeleted;
  EXPECT_EQ(after.visible, gone ? std::set<std::string>() : before.visible);
  EXPECT_EQ(after.recorded, after.visible);
  EXPECT_EQ(after.keys, before.keys);
  EXPECT_EQ(after.volumes, before.volumes);
  if (gone) return;
  EXPECT_FALSE(sandboxes->layers.InUse(102)) << "that of a fork";
  // After a claim the template builds another member.
  if (template_id.empty()) {
    EXPECT_TRUE(admission->idle());
  }
  // A template retries after a pause, because the cause of the failure may have passed.
  loop.Pass(3 * kSecond);
  const auto second = Ask();
  CarryOn(*second);
  ASSERT_EQ(second->called, 1);
  ASSERT_FALSE(second->error) << second->error->message();
  EXPECT_EQ(second->ids.size(), of);
  const auto third = Ask();
  ASSERT_EQ(third->called, 1);
  EXPECT_EQ(third->ids, second->ids);
  EXPECT_EQ(Ask("another")->error->code(), Code::kAlreadyExists);
}

using enum Kind;
using enum Failure;
INSTANTIATE_TEST_SUITE_P(
    Each, AttemptTest,
    testing::Values(
        Case{kCreate, kNetwork, false}, Case{kCreate, kBuild, false},
        Case{kCreate, kNoRecord, false}, Case{kCreate, kTooMany, true},
        Case{kCreate, kDeleted, true}, Case{kCreate, kShutDown, false},
        Case{kVolume, kNetwork, false}, Case{kVolume, kBuild, false},
        Case{kVolume, kNoRecord, false}, Case{kVolume, kTooMany, true},
        Case{kVolume, kDeleted, true}, Case{kVolume, kNoVolume, false},
        Case{kVolume, kShutDown, false}, Case{kPool, kNetwork, false},
        Case{kPool, kNoRecord, false}, Case{kClaim, kNetwork, false},
        Case{kClaim, kNoRecord, false}, Case{kClaim, kDeleted, true}, Case{kClaim, kHung, false},
        Case{kClaim, kEnded, true}, Case{kClaim, kShutDown, false}, Case{kWait, kBuild, false},
        Case{kWait, kNoRecord, false}, Case{kWait, kShutDown, false}, Case{kFork, kNetwork, false},
        Case{kFork, kBuild, false}, Case{kFork, kNoRecord, false}, Case{kFork, kTooMany, true},
        Case{kFork, kDeleted, true}, Case{kFork, kNoCopy, false}, Case{kFork, kShutDown, false},
        Case{kRollback, kNetwork, false}, Case{kRollback, kBuild, false},
        Case{kRollback, kNoRecord, false}, Case{kRollback, kTooMany, true},
        Case{kRollback, kDeleted, true}, Case{kRollback, kShutDown, false}));

}  // namespace
}  // namespace atl::sandbox
