#include "netpolicy/splice/splice_pump.h"

#include <gtest/gtest.h>

#include "tests/unit/netpolicy/splice_lab.h"

namespace atl::netpolicy {
namespace {

using namespace atl::testing;  // NOLINT(google-build-using-namespace): the lab

using PumpState = SplicePump::State;

constexpr size_t kPlenty = 1 << 30;

// A client that sends into `source`, and a server that receives what is sent into `sink`.
class SplicePumpTest : public ::testing::Test {
 protected:
  // Returns the test's end and the pump's end of a connection.
  static std::pair<Peer, UniqueFd> Pair() {
    Listener listener;
    UniqueFd fd = BoundStream("127.0.0.1");
    const Endpoint to = listener.endpoint();
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    Peer accepted = listener.Accept();
    EXPECT_EQ(::fcntl(accepted.fd(), F_SETFL, O_NONBLOCK), 0);
    return {Peer(std::move(fd)), UniqueFd(::fcntl(accepted.fd(), F_DUPFD_CLOEXEC, 0))};
  }
  void SetUp() override {
    std::tie(client, source) = Pair();
    std::tie(server, sink) = Pair();
    pump.SetQuota(SplicePump::kNoLimit);
  }
  PumpState Run(size_t budget = kPlenty) { return pump.Run(source.get(), sink.get(), budget); }
  std::string Got() {
    server.Read();
    return server.got;
  }

  PipePool pipes{64 * 1024, 4};
  SplicePump pump{pipes};
  Peer client, server;
  UniqueFd source, sink;
};

TEST_F(SplicePumpTest, SendsWhatWasAppendedFirst) {
  client.Send("second");
  pump.Append("first ");
  EXPECT_EQ(Run(), PumpState::kSourceEmpty);
  EXPECT_EQ(Got(), "first second");
  EXPECT_EQ(pump.moved(), 12U);
  EXPECT_EQ(pipes.idle(), 1U) << "its pipe serves others";
}

TEST_F(SplicePumpTest, TakesNoMoreThanItsQuota) {
  client.Send("0123456789");
  pump.SetQuota(4);
  EXPECT_EQ(Run(), PumpState::kQuotaSpent);
  EXPECT_EQ(Got(), "0123");
  EXPECT_EQ(pump.quota(), 0U);
  pump.SetQuota(SplicePump::kNoLimit);
  EXPECT_EQ(Run(), PumpState::kSourceEmpty);
  EXPECT_EQ(Got(), "0123456789");
}

TEST_F(SplicePumpTest, StopsWhenItsBudgetIsSpent) {
  client.Send("0123456789");
  EXPECT_EQ(Run(0), PumpState::kBudgetSpent);
  EXPECT_EQ(Got(), "");
  EXPECT_EQ(Run(10), PumpState::kBudgetSpent) << "whether there is more is not asked";
  EXPECT_EQ(Got(), "0123456789");
  EXPECT_EQ(Run(10), PumpState::kSourceEmpty);
}

TEST_F(SplicePumpTest, PassesTheEndOnWhenAllIsDelivered) {
  client.Send("last");
  client.End();
  EXPECT_EQ(Run(), PumpState::kEnded);
  EXPECT_EQ(Got(), "last");
  EXPECT_TRUE(server.ended);
  EXPECT_EQ(Run(), PumpState::kEnded);
}

TEST_F(SplicePumpTest, EndsWhenItIsTold) {
  client.Send("not this");
  pump.SetQuota(0);
  pump.Append("this");
  pump.End();
  EXPECT_EQ(Run(), PumpState::kEnded);
  EXPECT_EQ(Got(), "this");
  EXPECT_TRUE(server.ended);
}

TEST_F(SplicePumpTest, KeepsItsPipeWhileTheSinkIsFull) {
  const std::string much(1 << 20, 'x');
  size_t sent = 0;
  PumpState state = PumpState::kSourceEmpty;
  while (state != PumpState::kSinkFull) {
    const ssize_t n = ::send(client.fd(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
    state = Run();
    ASSERT_LT(sent, size_t{64} << 20);
  }
  EXPECT_TRUE(pump.sink_full());
  EXPECT_EQ(pipes.idle(), 0U);
  client.End();
  while (state != PumpState::kEnded) {
    ASSERT_NE(state, PumpState::kBroken);
    (void)Got();
    state = Run();
  }
  while (!server.ended) (void)Got();
  EXPECT_EQ(server.got.size(), sent);
  EXPECT_EQ(pipes.idle(), 1U);
}

TEST_F(SplicePumpTest, TellsThatASocketIsBroken) {
  client.Reset();
  EXPECT_EQ(Run(), PumpState::kBroken);
  SplicePump other(pipes);
  std::tie(client, source) = Pair();
  server.Reset();
  client.Send("x");
  other.SetQuota(SplicePump::kNoLimit);
  size_t budget = kPlenty;
  EXPECT_EQ(other.Run(source.get(), sink.get(), budget), PumpState::kBroken);
}

TEST(PipePool, KeepsAFew) {
  PipePool pool(64 * 1024, 1);
  auto a = pool.Get(), b = pool.Get();
  ASSERT_TRUE(a.has_value());
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(::fcntl(a->read.get(), F_GETPIPE_SZ), 64 * 1024);
  EXPECT_EQ(::fcntl(a->read.get(), F_GETFD), FD_CLOEXEC);
  pool.Put(std::move(*a));
  pool.Put(std::move(*b));
  EXPECT_EQ(pool.idle(), 1U);
  EXPECT_TRUE(pool.Get().has_value());
  EXPECT_EQ(pool.idle(), 0U);
}

}  // namespace
}  // namespace atl::netpolicy
