#include "runtime/launch/spawner_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/wire/spawner.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::launch {
namespace {

using sandbox::FakeClock;
using sandbox::FakeLoop;

constexpr int64_t kSecond = 1'000'000;

// The test plays the spawner at the other end.
class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    char name[] = "/tmp/spawner_client_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (directory + "/spawner.sock").copy(address.sun_path, sizeof address.sun_path - 1);
    listener.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    client = std::move(*SpawnerClient::Open(directory));
    spawner.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    client->Start(
        loop, [this](const wire::SandboxRecord& r) { exits.push_back(r.id); }, [this] { ++lost; });
  }
  ~ClientTest() override {
    client.reset();
    std::filesystem::remove_all(directory);
  }

  // Reads all requests that are in the socket now.
  std::vector<wire::Request> Read() {
    std::vector<wire::Request> requests;
    while (auto message = sys::ReceiveMessage(spawner.get(), wire::kMaxSpawnerMessage)) {
      if (message->bytes.empty()) break;
      requests.push_back(std::move(*wire::DecodeRequest(message->bytes, message->fds)));
    }
    return requests;
  }
  static Status Say(const UniqueFd& socket, const wire::Reply& reply) {
    return sys::SendMessage(socket.get(), wire::EncodeFields(reply));
  }
  void Answer(uint64_t number, wire::Answer answer = {}) {
    ASSERT_TRUE(Say(spawner, {number, std::move(answer)}));
    loop.Poll();
    loop.Run();
  }
  auto Count(std::map<std::string, int>* times, const std::string& id) {
    return [times, id](const auto& answer) {
      EXPECT_TRUE(answer);
      ++(*times)[id];
    };
  }

  std::string directory;
  UniqueFd listener;
  FakeClock clock;
  FakeLoop loop{clock};
  UniqueFd spawner;
  std::unique_ptr<SpawnerClient> client;
  std::vector<std::string> exits;
  int lost = 0;
};

TEST_F(ClientTest, WhatDoesNotFitIntoTheSocketIsSentLaterAndOnce) {
  std::map<std::string, int> times;
  std::map<std::string, int> sent;
  constexpr int kMany = 2000;
  for (int i = 0; i < kMany; ++i) {
    const std::string id = "s" + std::to_string(i);
    client->Ask(wire::Freeze{id, true}, Count(&times, id));
  }
  std::string last;
  for (int rounds = 0; times.size() < kMany && rounds < 10 * kMany; ++rounds) {
    for (const wire::Request& request : Read()) {
      last = std::get<wire::Freeze>(request.message).id;
      ++sent[last];
      Answer(request.number);
    }
    loop.Pass(10'000);
  }
  EXPECT_EQ(times.size(), static_cast<size_t>(kMany));
  for (const auto& [id, count] : times) EXPECT_EQ(count, 1) << id;
  for (const auto& [id, count] : sent) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(last, "s1999");
}

TEST_F(ClientTest, DestroysAreBoundedAndHoldUpNobody) {
  std::map<std::string, int> times;
  for (int i = 0; i < 500; ++i) client->Ask(wire::Destroy{"d"}, Count(&times, "d"));
  client->Ask(wire::Freeze{"f", true}, Count(&times, "f"));
  const auto first = Read();
  ASSERT_EQ(first.size(), SpawnerClient::kDestroysAtOnce + 1);
  EXPECT_TRUE(std::holds_alternative<wire::Freeze>(first.back().message));
  // Each finished request makes room for one more.
  Answer(first[3].number, wire::Destroyed());
  Answer(first[7].number, wire::Destroyed());
  EXPECT_EQ(Read().size(), 2U);
  EXPECT_EQ(times["d"], 2);
}

TEST_F(ClientTest, DescriptorsTravelWithALetterThatHadToWait) {
  for (int i = 0; i < 1000; ++i) client->Ask(wire::Freeze{"f", true}, [](const Status&) {});
  auto pipe = sys::MakePipe();
  ASSERT_TRUE(pipe);
  client->Ask(wire::PrepareSlot{3, {}, std::move(pipe->read), std::move(pipe->write)},
              [](const Result<wire::PreparedSlot>&) {});
  size_t fds = 0;
  for (int rounds = 0; fds == 0 && rounds < 5000; ++rounds) {
    while (auto message = sys::ReceiveMessage(spawner.get(), wire::kMaxSpawnerMessage)) {
      fds = message->fds.size();
    }
    loop.Pass(10'000);
  }
  EXPECT_EQ(fds, 2U);
}

TEST_F(ClientTest, ExitsAroundTheFirstHelloAreHeard) {
  std::thread others([this] {
    const UniqueFd taken(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto asked = sys::ReceiveMessage(taken.get(), wire::kMaxSpawnerMessage);
    const auto page = [](const std::string& id, bool more) {
      wire::Greeting greeting;
      greeting.sandboxes = {{.id = id}};
      greeting.more = more;
      return greeting;
    };
    const auto exited = [](const std::string& id) {
      return wire::Exited{{.id = id, .exited = true}};
    };
    const uint64_t number = wire::DecodeRequest(asked->bytes)->number;
    EXPECT_TRUE(Say(taken, {0, exited("before")}) && Say(taken, {number, page("first", true)}) &&
                Say(taken, {0, exited("first")}) && Say(taken, {number, page("second", false)}));
  });
  wire::Greeting hello;
  const auto connected = SpawnerClient::Connect(directory, &hello);
  others.join();
  ASSERT_TRUE(connected) << connected.error().message();
  ASSERT_EQ(hello.sandboxes.size(), 2U);
  EXPECT_TRUE(hello.sandboxes[0].exited);
  EXPECT_FALSE(hello.sandboxes[1].exited);
}

TEST_F(ClientTest, AListOfSandboxesComesInSeveralPackets) {
  Result<wire::Greeting> hello = Fail(Code::kInternal, "none");
  client->Ask(wire::Hello(), [&](Result<wire::Greeting> r) { hello = std::move(r); });
  const uint64_t number = Read().at(0).number;
  wire::Greeting page;
  page.instance = 5;
  page.sandboxes = {{.id = "a"}, {.id = "b"}};
  page.more = true;
  Answer(number, page);
  EXPECT_FALSE(hello);
  page.sandboxes = {{.id = "c"}};
  page.more = false;
  Answer(number, page);
  ASSERT_TRUE(hello);
  ASSERT_EQ(hello->sandboxes.size(), 3U);
  EXPECT_EQ(hello->sandboxes[2].id, "c");
}

TEST_F(ClientTest, ASpawnerOfAnotherProtocolIsRefused) {
  Error error(Code::kInternal, "");
  client->Ask(wire::Hello(), [&](const Result<wire::Greeting>& r) { error = r.error(); });
  wire::Greeting theirs;
  theirs.protocol = wire::kSpawnerProtocol + 1;
  Answer(Read().at(0).number, theirs);
  EXPECT_EQ(error.code(), Code::kFailedPrecondition);
  EXPECT_NE(error.message().find("upgrade both"), std::string::npos) << error.message();
}

TEST_F(ClientTest, WhatAnswersSomethingElseIsAnError) {
  Error error(Code::kUnavailable, "");
  client->Ask(wire::Build(), [&](const Result<wire::Built>& r) { error = r.error(); });
  Answer(Read().at(0).number, wire::DiskUse());
  EXPECT_EQ(error.code(), Code::kInternal);
}

TEST_F(ClientTest, FailuresComeAsTheyWere) {
  Error error(Code::kInternal, "");
  client->Ask(wire::Build(), [&](const Result<wire::Built>& r) { error = r.error(); });
  const Error why = wire::FailedAt(wire::Step::kVolumes, SysError("open x", ENOSPC));
  Answer(Read().at(0).number, wire::Failed::Of(why));
  EXPECT_EQ(error.code(), why.code());
  EXPECT_EQ(error.error_number(), ENOSPC);
  EXPECT_EQ(error.message(), why.message());
  EXPECT_TRUE(wire::IsFailedAt(wire::Step::kVolumes, error));
  EXPECT_FALSE(wire::IsFailedAt(wire::Step::kMounts, error));
}

// The greeting of a spawner from before greetings named their protocol.
TEST_F(ClientTest, WhatCannotBeReadSaysThatBothAreToBeUpgraded) {
  Error error(Code::kInternal, "");
  client->Ask(wire::Hello(), [&](const Result<wire::Greeting>& r) { error = r.error(); });
  Read();
  ASSERT_TRUE(sys::SendMessage(spawner.get(), std::string(200, '\1')));
  loop.Poll();
  loop.Run();
  EXPECT_EQ(lost, 1);
  EXPECT_NE(error.message().find("upgrade both"), std::string::npos) << error.message();
}

TEST_F(ClientTest, ASilentSpawnerIsLost) {
  Error error(Code::kInternal, "");
  client->Ask(wire::Build(), [&](const Result<wire::Built>& built) { error = built.error(); });
  loop.Pass(3 * kSecond);
  EXPECT_EQ(lost, 0);
  const auto requests = Read();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<wire::Ping>(requests[1].message));
  loop.Pass(4 * kSecond);
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_NE(error.message().find("does not answer"), std::string::npos);
}

TEST_F(ClientTest, OneThatIsAtWorkForLongIsNot) {
  bool done = false;
  client->Ask(wire::Build(), [&](const Result<wire::Built>& built) { done = built.has_value(); });
  uint64_t build = 0;
  for (int i = 0; i < 60; ++i) {
    loop.Pass(kSecond);
    for (const wire::Request& request : Read()) {
      if (std::holds_alternative<wire::Build>(request.message)) {
        build = request.number;
      } else {
        Answer(request.number);
      }
    }
  }
  EXPECT_EQ(lost, 0);
  Answer(build, wire::Built());
  EXPECT_TRUE(done);
  // No request waits any more, so the client sends nothing.
  loop.Pass(5 * kSecond);
  Read();
  loop.Pass(5 * kSecond);
  EXPECT_TRUE(Read().empty());
}

// If a process closes its socket with unread data, the connection is reset, and the error arrives
// before its last answer.
TEST_F(ClientTest, TheLastAnswerIsHeardThoughTheNextRequestWasNotRead) {
  bool stopped = false;
  bool refused = false;
  client->Ask(wire::Stop(), [&](const Status& status) { stopped = status.has_value(); });
  const auto requests = Read();
  ASSERT_EQ(requests.size(), 1U);
  client->Ask(wire::DropSlot{1}, [&](const Status& status) { refused = !status.has_value(); });
  ASSERT_TRUE(Say(spawner, {requests[0].number, wire::Done()}));
  spawner.reset();
  for (int i = 0; i < 3; ++i) {
    loop.Poll();
    loop.Run();
  }
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(refused);
  EXPECT_EQ(lost, 1);
}

TEST_F(ClientTest, AllThatWaitHearOfTheEnd) {
  int failed = 0;
  for (int i = 0; i < 1000; ++i) {
    client->Ask(wire::Destroy{"d"}, [&](const Result<wire::Destroyed>& s) {
      EXPECT_EQ(s.error().code(), Code::kUnavailable);
      ++failed;
    });
  }
  spawner.reset();
  loop.Poll();
  loop.Run();
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(failed, 1000);
}

}  // namespace
}  // namespace atl::launch
