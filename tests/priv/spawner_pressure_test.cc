// A daemon that does not read, or that disconnects before it is answered.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <set>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/wire/spawner.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

Status Say(const UniqueFd& socket, uint64_t number, wire::Message message) {
  return sys::SendMessage(socket.get(),
                          wire::EncodeFields(wire::Request{number, std::move(message)}));
}

PRIV_TEST(SpawnerPressure, EveryRequestIsAnsweredOnceHoweverSlowTheDaemon) {
  SpawnerFixture spawner;
  const UniqueFd socket = SpawnerFixture::RawConnection(spawner.run_dir());
  ASSERT_EQ(::fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
  // Sends until neither side has room. The spawner has then stopped reading, and has not hung up.
  constexpr int kQuietMs = 500;
  constexpr uint64_t kMost = 100'000;
  uint64_t asked = 0;
  pollfd room{socket.get(), POLLOUT, 0};
  while (asked<kMost&& ::poll(&room, 1, kQuietMs)> 0) {
    ASSERT_EQ(room.revents & POLLHUP, 0) << "closed after " << asked;
    if (Say(socket, asked + 1, wire::Ping())) ++asked;
  }
  ASSERT_LT(asked, kMost) << "what waits for a slow daemon has no bound";
  ASSERT_GT(asked, 1000U);
  std::set<uint64_t> answered;
  pollfd ready{socket.get(), POLLIN, 0};
  while (answered.size() < asked && ::poll(&ready, 1, 10'000) > 0) {
    auto message = sys::ReceiveMessage(socket.get(), wire::kMaxSpawnerReply);
    ASSERT_TRUE(message && !message->bytes.empty());
    auto reply = wire::DecodeReply(message->bytes);
    ASSERT_TRUE(reply);
    ASSERT_TRUE(answered.insert(reply->number).second) << "twice";
  }
  EXPECT_EQ(answered.size(), asked);
  // The raw connection has replaced the fixture's own, which the fixture needs to end the spawner.
  spawner.AwaitLost();
  spawner.Connect();
}

PRIV_TEST(SpawnerPressure, WhatNobodyWaitsForIsNotCarriedOutButRemovals) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  ASSERT_EQ(::kill(spawner.pid(), SIGSTOP), 0);
  // kill(2) returns before the process has stopped.
  ASSERT_EQ(::waitpid(spawner.pid(), nullptr, WUNTRACED), spawner.pid());
  {
    const UniqueFd socket = SpawnerFixture::RawConnection(spawner.run_dir());
    ASSERT_TRUE(Say(socket, 1, wire::MakeVolume{"unwanted", 0}));
    ASSERT_TRUE(Say(socket, 2, wire::Destroy{sandbox->plan.id}));
  }
  ASSERT_EQ(::kill(spawner.pid(), SIGCONT), 0);
  // The second connection has replaced ours, the first. A third would replace the second, too, and
  // would drop its unread requests. So wait until the spawner has read all of them.
  spawner.AwaitLost();
  const int64_t deadline = SystemClock().BootMicros() + 10'000'000;
  const std::string group = spawner.hello().cgroup_path + "/s1";
  while (std::filesystem::exists(group) && SystemClock().BootMicros() < deadline) {
    ::poll(nullptr, 0, 5);
  }
  EXPECT_FALSE(std::filesystem::exists(group));
  spawner.Connect();
  EXPECT_FALSE(std::filesystem::exists(spawner.data_dir() + "/store/volumes/unwanted"));
}

// A builder that waits, for a disk for instance, keeps nobody else waiting. The spawner greets the
// next daemon at once, and dismantles the last daemon's slot when the builder delivers it.
PRIV_TEST(SpawnerPressure, ABuilderThatWaitsDoesNotKeepTheNextDaemonWaiting) {
  SpawnerFixture spawner;
  const std::string base = spawner.hello().cgroup_path;
  ASSERT_TRUE(spawner.Prepare(2));
  const std::vector<pid_t> builders = spawner.Builders();
  ASSERT_EQ(builders.size(), 1U);
  // Freezes the builder by its cgroup, because the spawner would notice a stop by a signal and
  // replace the builder.
  const std::string freezer = base + "-freezer";
  const auto write = [&](const std::string& file, const std::string& value) {
    return sys::WriteFileAt(AT_FDCWD, file, value).has_value();
  };
  ASSERT_EQ(::mkdir(freezer.c_str(), 0755), 0);
  ASSERT_TRUE(write(freezer + "/cgroup.procs", std::to_string(builders[0])));
  ASSERT_TRUE(write(freezer + "/cgroup.freeze", "1"));
  ASSERT_TRUE(spawner.BeginPrepare(1));
  spawner.Connect();
  EXPECT_TRUE(spawner.hello().prepared_slots.empty());
  const Status again = spawner.TryPrepare(1);
  EXPECT_TRUE(!again && again.error().code() == Code::kFailedPrecondition);
  ASSERT_TRUE(write(freezer + "/cgroup.freeze", "0"));
  // The builder makes one slot after the other, so s1 has been dismantled before.
  EXPECT_TRUE(spawner.Build(3));
  EXPECT_FALSE(std::filesystem::exists(base + "/s1"));
  EXPECT_TRUE(spawner.Build(1));
  ASSERT_TRUE(write(base + "/../cgroup.procs", std::to_string(builders[0])));
  EXPECT_EQ(::rmdir(freezer.c_str()), 0);
}

wire::Greeting AskHello(SpawnerFixture& spawner) {
  Result<wire::Greeting> hello = Fail(Code::kInternal, "no answer");
  bool answered = false;
  spawner.client().Ask(wire::Hello(), [&](Result<wire::Greeting> reply) {
    answered = true;
    hello = std::move(reply);
  });
  spawner.loop().RunUntil([&] { return answered; });
  return hello.value_or(wire::Greeting());
}

PRIV_TEST(SpawnerPressure, AHelloEndsASandboxThatIsOutOfItsGroups) {
  SpawnerFixture spawner;
  auto taken = spawner.Build(1);
  auto other = spawner.Build(2);
  ASSERT_TRUE(taken && other);
  EXPECT_TRUE(AskHello(spawner).loose_slots.empty());
  std::string pid;
  for (const wire::SandboxRecord& record : AskHello(spawner).sandboxes) {
    if (record.id == taken->plan.id) pid = std::to_string(record.pid);
  }
  const std::string outside = spawner.hello().cgroup_path + "/../cgroup.procs";
  ASSERT_TRUE(sys::WriteFileAt(AT_FDCWD, outside, pid));
  EXPECT_EQ(AskHello(spawner).loose_slots, std::vector<uint32_t>{1});
  for (bool ended = false; !ended;) {
    for (const wire::SandboxRecord& record : AskHello(spawner).sandboxes) {
      ended = ended || (record.id == taken->plan.id && record.exited);
      EXPECT_TRUE(record.id == taken->plan.id || !record.exited);
    }
  }
  EXPECT_TRUE(AskHello(spawner).loose_slots.empty());
  EXPECT_TRUE(spawner.Destroy(taken->plan.id) && spawner.Destroy(other->plan.id));
}

PRIV_TEST(SpawnerPressure, AHelloListsAndRemovesStrays) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox && spawner.Prepare(2));
  const std::string upper = spawner.data_dir() + "/store/fs/uppers/s77";
  const std::string group = spawner.hello().cgroup_path + "/s78";
  ASSERT_TRUE(std::filesystem::create_directories(upper + "/upper"));
  ASSERT_EQ(::mkdir(group.c_str(), 0755), 0);
  const wire::Greeting first = AskHello(spawner);
  EXPECT_EQ(first.stray_slots, (std::vector<uint32_t>{77, 78}));
  EXPECT_EQ(first.prepared_slots, std::vector<uint32_t>{2});
  EXPECT_EQ(first.sandboxes.size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(upper) || std::filesystem::exists(group));
  EXPECT_TRUE(AskHello(spawner).stray_slots.empty());
  // Sandboxes that are not stray are unchanged.
  EXPECT_TRUE(spawner.Build(SpawnerFixture::PlanFor(2)));
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

}  // namespace
}  // namespace atl::priv
