// The API's answers about differences, for any output of atoll-unpack.
#include <signal.h>
#include <unistd.h>

#include "runtime/wire/diff.h"
#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

class DiffApiTest : public ApiTest {
 protected:
  // A write to a pipe that nobody reads then fails with an error instead of a signal.
  DiffApiTest() { ::signal(SIGPIPE, SIG_IGN); }

  // Requests a list for which the spawner's process writes `text` and ends with `ended`.
  std::shared_ptr<FakeExchange> List(const std::string& text,
                                     Result<wire::Unpacked> ended = wire::Unpacked{}) {
    if (box.empty()) box = Create();
    const auto exchange = Send("GET", "/v1/sandboxes/" + box + "/diff");
    EXPECT_FALSE(exchange->response);
    auto [asked, done] = std::move(spawner.diffs.front());
    spawner.diffs.pop_front();
    EXPECT_FALSE(asked.archive);
    for (size_t at = 0; at < text.size();) {
      const ssize_t n =
          ::write(asked.out.get(), text.data() + at, std::min<size_t>(text.size() - at, 32 << 10));
      if (n <= 0) break;
      at += static_cast<size_t>(n);
      loop.Poll();
    }
    asked.out.reset();
    loop.Poll();
    done(std::move(ended));
    loop.Run();
    return exchange;
  }
  // Sends a request that is refused after the pipe has ended.
  std::shared_ptr<FakeExchange> Refused(const std::string& target) {
    const auto exchange = Send("GET", target);
    loop.Poll();
    EXPECT_TRUE(exchange->response && spawner.diffs.empty()) << target;
    return exchange;
  }
  std::string box;
};

TEST_F(DiffApiTest, ListsWhatIsTold) {
  const auto exchange = List(wire::DiffEntry{'A', 'f', 5, "srv/new"}.Encode() +
                             wire::DiffEntry{'M', 'd', 0, "etc"}.Encode() +
                             wire::DiffEntry{'D', 'l', 0, "bin/s h"}.Encode());
  ASSERT_EQ(exchange->response->status, 200);
  EXPECT_EQ(json::parse(exchange->response->body), json::parse(R"({"truncated": false, "items": [
              {"path": "/srv/new", "kind": "added", "type": "file", "size": 5},
              {"path": "/etc", "kind": "modified", "type": "directory", "size": 0},
              {"path": "/bin/s h", "kind": "deleted", "type": "link", "size": 0}]})"));
  EXPECT_EQ(json::parse(List("")->response->body).at("items"), json::array());
}

TEST_F(DiffApiTest, NothingElseIsBelieved) {
  for (const std::string record :
       {"", "A", "A f 5", "A f 5 ", "X f 5 p", "A x 5 p", "A f -5 p", "A f 5x p", "Af 5 p"}) {
    EXPECT_EQ(List(record + '\0')->response->status, 500) << record;
  }
  EXPECT_EQ(List("A f 5 " + std::string(4096, 'p') + '\0')->response->status, 500);
  EXPECT_EQ(List(std::string(200'000, 'p'))->response->status, 500);
}

TEST_F(DiffApiTest, AListIsBounded) {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += wire::DiffEntry{'A', 'f', 1, "n"}.Encode();
  const json list = json::parse(List(text, Fail(Code::kInternal, "EPIPE"))->response->body);
  EXPECT_EQ(list.at("items").size(), 50'000U);
  EXPECT_EQ(list.at("truncated"), true);
  text.clear();
  const std::string longest(4000, 'p');
  for (int i = 0; i < 3000; ++i) text += wire::DiffEntry{'A', 'f', 1, longest}.Encode();
  const json some = json::parse(List(text)->response->body);
  EXPECT_LT(some.at("items").size(), 2200U);
  EXPECT_EQ(some.at("truncated"), true);
}

TEST_F(DiffApiTest, HalfAListIsNone) {
  const auto exchange = List(wire::DiffEntry{'A', 'f', 5, "srv/new"}.Encode(),
                             Fail(Code::kFailedPrecondition, "has ended meanwhile"));
  EXPECT_EQ(exchange->response->status, 409);
  EXPECT_EQ(CodeOf(exchange), "SANDBOX::INVALID_STATE");
}

TEST_F(DiffApiTest, Refusals) {
  box = Create();
  const std::string target = "/v1/sandboxes/" + box + "/diff";
  EXPECT_EQ(Status("GET", "/v1/sandboxes/none/diff"), 404);
  EXPECT_EQ(Status("GET", target + "?format=zip"), 400);
  EXPECT_EQ(CodeOf(Refused(target + "?against=none")), "SNAPSHOT::NOT_FOUND");
  EXPECT_TRUE(spawner.diffs.empty());
}

TEST_F(DiffApiTest, AgainstTheImageOrASnapshot) {
  box = Create();
  const auto against = [&](const std::string& sandbox, const std::string& query) {
    Send("GET", "/v1/sandboxes/" + sandbox + "/diff" + query);
    auto [asked, done] = std::move(spawner.diffs.front());
    spawner.diffs.pop_front();
    done(wire::Unpacked{});
    EXPECT_EQ(asked.id, sandbox);
    return asked.against;
  };
  using Layers = std::vector<wire::LayerId>;
  EXPECT_EQ(against(box, ""), (Layers{2, 1}));
  const std::string snapshot =
      json::parse(Send("POST", "/v1/sandboxes/" + box + "/snapshots")->response->body).at("id");
  spawner.AnswerCopy();
  spawner.AnswerPublish();
  EXPECT_EQ(against(box, "?against=" + snapshot), (Layers{101, 2, 1}));
  const auto restored =
      Send("POST", "/v1/sandboxes",
           json{{"snapshotId", snapshot}, {"resourceLimits", json::object()}}.dump());
  spawner.AnswerBuild();
  const std::string copy = json::parse(restored->response->body).at("id");
  EXPECT_EQ(against(copy, "?against=image"), (Layers{2, 1}));
  EXPECT_EQ(against(copy, "?against=" + snapshot), (Layers{101, 2, 1}));
  images.image.digest = "sha256:01";
  const std::string other = Create();
  const auto refused = Refused("/v1/sandboxes/" + other + "/diff?against=" + snapshot);
  EXPECT_EQ(refused->response->status, 409);
}

}  // namespace
}  // namespace atl::api
