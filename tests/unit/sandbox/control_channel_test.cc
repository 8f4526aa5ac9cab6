#include "runtime/sandbox/create/control_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "runtime/wire/bytes.h"
#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

class ControlChannelTest : public testing::Test {
 protected:
  ControlChannelTest() {
    auto pair = sys::UnixPair(SOCK_STREAM);
    EXPECT_TRUE(pair);
    execd = std::move(pair->b);
    channel = std::make_unique<ControlChannel>(loop, std::move(pair->a));
  }
  void Watch() {
    channel->Watch([this](Result<wire::StartReport> r) {
      ++reports;
      report = std::move(r);
    });
  }
  static std::string Frame(const wire::StartReport& r) { return wire::Frame(r.Encode()); }
  void Write(std::string_view bytes) {
    ASSERT_EQ(::send(execd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string ReadAvailable() {
    std::string all;
    char chunk[65536];
    for (;;) {
      const ssize_t n = ::recv(execd.get(), chunk, sizeof chunk, MSG_DONTWAIT);
      if (n <= 0) return all;
      all.append(chunk, static_cast<size_t>(n));
    }
  }

  FakeClock clock;
  FakeLoop loop{clock};
  UniqueFd execd;
  std::unique_ptr<ControlChannel> channel;
  int reports = 0;
  Result<wire::StartReport> report = Fail(Code::kInternal, "none");
};

TEST_F(ControlChannelTest, SendsTheFrameAtOnce) {
  wire::StartMessage message;
  message.sandbox_id = "id";
  message.argv = {"true"};
  ASSERT_TRUE(channel->Send(message));
  const std::string bytes = ReadAvailable();
  wire::Reader reader(bytes);
  ASSERT_EQ(reader.U32(), bytes.size() - 4);
  const auto decoded = wire::DecodeStartMessage(std::string_view(bytes).substr(4));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->argv, message.argv);
}

TEST_F(ControlChannelTest, SendsALargeFrameAsItIsRead) {
  wire::StartMessage message;
  for (int i = 0; i < 9; ++i) message.env.push_back("X=" + std::string(100000, 'x'));
  ASSERT_TRUE(channel->Send(message));
  std::string bytes;
  for (int i = 0; i < 100 && bytes.size() < message.Encode().size() + 4; ++i) {
    bytes += ReadAvailable();
    loop.Poll();
  }
  EXPECT_EQ(bytes.substr(4), message.Encode());
  EXPECT_EQ(loop.watching(), 0U);
}

TEST_F(ControlChannelTest, AwaitsTheReportBesideALargeFrame) {
  Watch();
  wire::StartMessage message;
  for (int i = 0; i < 9; ++i) message.env.push_back("X=" + std::string(100000, 'x'));
  ASSERT_TRUE(channel->Send(message));
  wire::StartReport sent;
  sent.kind = wire::StartReport::Kind::kFailed;
  sent.message = "no root";
  const std::string frame = Frame(sent);
  Write(frame.substr(0, 3));
  std::string bytes;
  for (int i = 0; i < 100 && bytes.size() < message.Encode().size() + 4; ++i) {
    bytes += ReadAvailable();
    loop.Poll();
  }
  EXPECT_EQ(bytes.substr(4), message.Encode());
  EXPECT_EQ(reports, 0);
  Write(frame.substr(3));
  loop.Poll();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, sent.message);
}

TEST_F(ControlChannelTest, RefusesWhatNoExecdWouldRead) {
  wire::StartMessage message;
  message.env = {std::string(wire::kMaxStartFrame, 'x')};
  const auto sent = channel->Send(message);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kInvalidArgument);
}

TEST_F(ControlChannelTest, ReportsOnceByteByByte) {
  Watch();
  wire::StartReport sent;
  sent.kind = wire::StartReport::Kind::kFailed;
  sent.message = "exec /nope: No such file or directory";
  for (char c : Frame(sent)) {
    EXPECT_EQ(reports, 0);
    Write({&c, 1});
    loop.Poll();
  }
  EXPECT_EQ(reports, 1);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, sent.message);
  EXPECT_EQ(loop.watching(), 0U);
}

TEST_F(ControlChannelTest, TheCallbackMayDestroyIt) {
  channel->Watch([this](const Result<wire::StartReport>&) { channel.reset(); });
  Write(Frame({}));
  loop.Poll();
  EXPECT_EQ(channel, nullptr);
}

TEST_F(ControlChannelTest, ClosedAndMalformedAreErrors) {
  Watch();
  Write(std::string("\xff\xff\xff\x7f", 4));
  loop.Poll();
  EXPECT_EQ(reports, 1);
  EXPECT_FALSE(report);

  auto pair = sys::UnixPair(SOCK_STREAM);
  ControlChannel other(loop, std::move(pair->a));
  bool closed = false;
  other.Watch([&](const Result<wire::StartReport>& r) { closed = !r; });
  pair->b.reset();
  loop.Poll();
  EXPECT_TRUE(closed);
}

TEST_F(ControlChannelTest, DrainFindsWhatHasArrived) {
  EXPECT_FALSE(channel->Drain());
  Write(Frame({wire::StartReport::Kind::kFailed, "why"}));
  const auto drained = channel->Drain();
  ASSERT_TRUE(drained);
  EXPECT_EQ(drained->message, "why");
}

TEST_F(ControlChannelTest, APeerThatIsGoneIsNoError) {
  execd.reset();
  EXPECT_TRUE(channel->Send({}));
  EXPECT_FALSE(channel->Drain());
}

}  // namespace
}  // namespace atl::sandbox
