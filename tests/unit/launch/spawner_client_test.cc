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
#include "tests/unit/sandbox/fakes.h"

namespace atl::launch {
namespace {

using sandbox::FakeClock;
using sandbox::FakeLoop;

constexpr int64_t kSecond = 1'000'000;

// The other end is a spawner that does what the test says.
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

  // Everything that is in the socket now.
  std::vector<wire::Request> Read() {
    std::vector<wire::Request> requests;
    while (auto message = sys::ReceiveMessage(spawner.get(), wire::kMaxSpawnerMessage)) {
      if (message->bytes.empty()) break;
      requests.push_back(*wire::DecodeRequest(message->bytes));
    }
    return requests;
  }
  void Answer(uint64_t number, wire::Reply reply = {}) {
    reply.number = number;
    ASSERT_TRUE(sys::SendMessage(spawner.get(), reply.Encode()));
    loop.Poll();
    loop.Run();
  }
  SpawnerClient::Finished Count(std::map<std::string, int>* times, const std::string& id) {
    return [times, id](const Status& status) {
      EXPECT_TRUE(status);
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
    client->Freeze(id, true, Count(&times, id));
  }
  std::string last;
  for (int rounds = 0; times.size() < kMany && rounds < 10 * kMany; ++rounds) {
    for (const wire::Request& request : Read()) {
      ++sent[request.id];
      Answer(request.number);
      last = request.id;
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
  for (int i = 0; i < 500; ++i) client->Destroy("d", Count(&times, "d"));
  client->Freeze("f", true, Count(&times, "f"));
  const auto first = Read();
  ASSERT_EQ(first.size(), SpawnerClient::kDestroysAtOnce + 1);
  EXPECT_EQ(first.back().id, "f");
  // One more for each that is done.
  Answer(first[3].number);
  Answer(first[7].number);
  EXPECT_EQ(Read().size(), 2U);
  EXPECT_EQ(times["d"], 2);
}

TEST_F(ClientTest, DescriptorsTravelWithALetterThatHadToWait) {
  for (int i = 0; i < 1000; ++i) client->Freeze("f", true, [](const Status&) {});
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  client->PrepareSlot(3, {}, pipe[0], pipe[1], [](const Result<PreparedSlot>&) {});
  ::close(pipe[0]);
  ::close(pipe[1]);
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
    const auto send = [&](uint64_t number, bool more, const std::string& id, bool exited) {
      wire::Reply reply;
      reply.number = number;
      reply.protocol = wire::kSpawnerProtocol;
      reply.more = more;
      reply.sandboxes.emplace_back();
      reply.sandboxes.back().id = id;
      reply.sandboxes.back().exited = exited;
      ASSERT_TRUE(sys::SendMessage(taken.get(), reply.Encode()));
    };
    const uint64_t number = wire::DecodeRequest(asked->bytes)->number;
    send(0, false, "before", true);
    send(number, true, "first", false);
    send(0, false, "first", true);
    send(number, false, "second", false);
  });
  wire::Reply hello;
  const auto connected = SpawnerClient::Connect(directory, &hello);
  others.join();
  ASSERT_TRUE(connected) << connected.error().message();
  ASSERT_EQ(hello.sandboxes.size(), 2U);
  EXPECT_TRUE(hello.sandboxes[0].exited);
  EXPECT_FALSE(hello.sandboxes[1].exited);
}

TEST_F(ClientTest, AListOfSandboxesComesInSeveralPackets) {
  Result<wire::Reply> hello = Fail(Code::kInternal, "none");
  client->Hello([&](Result<wire::Reply> r) { hello = std::move(r); });
  const uint64_t number = Read().at(0).number;
  wire::Reply page;
  page.protocol = wire::kSpawnerProtocol;
  page.sandboxes = {{.id = "a"}, {.id = "b"}};
  page.more = true;
  Answer(number, page);
  EXPECT_FALSE(hello);
  Answer(number, {.sandboxes = {{.id = "c"}}});
  ASSERT_TRUE(hello);
  ASSERT_EQ(hello->sandboxes.size(), 3U);
  EXPECT_EQ(hello->sandboxes[2].id, "c");
}

TEST_F(ClientTest, ASilentSpawnerIsLost) {
  Error error(Code::kInternal, "");
  client->Build({}, [&](const Result<Built>& built) { error = built.error(); });
  loop.Pass(3 * kSecond);
  EXPECT_EQ(lost, 0);
  const auto requests = Read();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].type, wire::RequestType::kPing);
  loop.Pass(4 * kSecond);
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_NE(error.message().find("does not answer"), std::string::npos);
}

TEST_F(ClientTest, OneThatIsAtWorkForLongIsNot) {
  bool done = false;
  client->Build({}, [&](const Result<Built>& built) { done = built.has_value(); });
  uint64_t build = 0;
  for (int i = 0; i < 60; ++i) {
    loop.Pass(kSecond);
    for (const wire::Request& request : Read()) {
      if (request.type == wire::RequestType::kPing) {
        Answer(request.number);
      } else {
        build = request.number;
      }
    }
  }
  EXPECT_EQ(lost, 0);
  Answer(build);
  EXPECT_TRUE(done);
  // Nobody waits any more: nobody asks.
  loop.Pass(5 * kSecond);
  Read();
  loop.Pass(5 * kSecond);
  EXPECT_TRUE(Read().empty());
}

// Whoever closes with something unread resets the connection, and the error comes before what it
// has said.
TEST_F(ClientTest, TheLastAnswerIsHeardThoughTheNextRequestWasNotRead) {
  bool stopped = false;
  bool refused = false;
  client->Stop([&](const Status& status) { stopped = status.has_value(); });
  const auto requests = Read();
  ASSERT_EQ(requests.size(), 1U);
  client->DropSlot(1, [&](const Status& status) { refused = !status.has_value(); });
  wire::Reply reply;
  reply.number = requests[0].number;
  ASSERT_TRUE(sys::SendMessage(spawner.get(), reply.Encode()));
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
    client->Destroy("d", [&](const Status& s) {
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
