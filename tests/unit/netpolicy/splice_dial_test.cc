#include "netpolicy/splice/splice_dial.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <optional>

#include "tests/unit/netpolicy/splice_lab.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the lab

class SpliceDialTest : public ::testing::Test {
 protected:
  std::unique_ptr<SpliceDial> Dial(std::vector<Endpoint> targets) {
    auto dial = std::make_unique<SpliceDial>(
        loop, SpliceDial::Watch{epoll.get(), 7}, std::move(targets),
        SpliceDial::Timeouts{.attempt_us = 20'000, .total_us = 50'000}, connect,
        [this](UniqueFd socket) { result = std::move(socket); });
    dial->Start();
    return dial;
  }
  // Waits for an event of the dial's socket.
  bool Event() {
    epoll_event event{};
    return ::epoll_wait(epoll.get(), &event, 1, 5000) == 1 && event.data.u64 == 7;
  }

  TestLoop loop;
  UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  SpliceDial::Connect connect = [](int socket, const Endpoint& to) {
    return ::connect(socket, to.get(), to.size);
  };
  std::optional<UniqueFd> result;
  BlackHole hole;
};

TEST_F(SpliceDialTest, GivesTheFirstThatAnswers) {
  Listener closed, listener;
  const Endpoint nobody = closed.endpoint();
  closed = Listener();
  const auto dial = Dial({nobody, listener.endpoint()});
  while (!result) {
    ASSERT_TRUE(Event());
    dial->OnEvent();
  }
  EXPECT_TRUE(result->valid());
  EXPECT_TRUE(listener.Accept().valid());
  EXPECT_EQ(loop.timer_count(), 0U);
}

// The loop may report an event of an abandoned socket after the next one has begun to connect.
TEST_F(SpliceDialTest, AStaleEventIsNoConnection) {
  const auto dial = Dial({hole.endpoint()});
  dial->OnEvent();
  EXPECT_FALSE(result.has_value());
}

TEST_F(SpliceDialTest, GivesUp) {
  const auto dial = Dial({hole.endpoint(), hole.endpoint(), hole.endpoint(), hole.endpoint()});
  EXPECT_TRUE(loop.RunUntil([&] { return result.has_value(); }));
  EXPECT_FALSE(result->valid());
}

TEST_F(SpliceDialTest, SaysNothingAfterStop) {
  const auto dial = Dial({hole.endpoint(), hole.endpoint()});
  dial->Stop();
  EXPECT_FALSE(result.has_value());
  EXPECT_EQ(loop.timer_count(), 0U);
}

TEST_F(SpliceDialTest, NobodyToDial) {
  const auto dial = Dial({});
  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->valid());
}

}  // namespace
}  // namespace atl::netpolicy
