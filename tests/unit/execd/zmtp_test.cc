#include "execd/code/zmtp.h"

#include <gtest/gtest.h>

namespace atl::execd {
namespace {

using Messages = std::vector<ZmtpMessage>;

std::string Frame(int flags, const std::string& body) {
  return std::string({static_cast<char>(flags), static_cast<char>(body.size())}) + body;
}

// Returns the head of a frame of `size` bytes, in the long form.
std::string LongHead(int flags, uint64_t size) {
  std::string head(1, static_cast<char>(flags | 2));
  for (int i = 7; i >= 0; --i) head.push_back(static_cast<char>(size >> (8 * i)));
  return head;
}

class Zmtp : public testing::Test {
 protected:
  Status Feed(std::string_view bytes) {
    return reader_.Feed(bytes,
                        [this](ZmtpMessage message) { messages_.push_back(std::move(message)); });
  }
  void Greet() { ASSERT_TRUE(Feed(ZmtpHello("ROUTER"))); }

  ZmtpReader reader_{"ROUTER"};
  Messages messages_;
};

TEST_F(Zmtp, ReadsWhatIsWrittenHoweverItIsCut) {
  std::string stream = ZmtpHello("ROUTER");
  AppendZmtpMessage(&stream, {"one", "", std::string(300, 'x')});
  AppendZmtpMessage(&stream, {""});
  for (const char byte : stream) ASSERT_TRUE(Feed({&byte, 1}));
  EXPECT_TRUE(reader_.ready());
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_EQ(messages_[0].frames, (std::vector<std::string>{"one", "", std::string(300, 'x')}));
  EXPECT_EQ(messages_[1].frames, std::vector<std::string>{""});
  EXPECT_EQ(ZmtpReader::held(), 0u);
}

TEST_F(Zmtp, KnowsThePeer) {
  EXPECT_FALSE(Feed("HTTP/1.1 200 OK\r\n"));
  EXPECT_FALSE(ZmtpReader("ROUTER").Feed(ZmtpHello("PUB"), [](ZmtpMessage) {}));
  ZmtpReader publisher("PUB");
  EXPECT_TRUE(publisher.Feed(ZmtpHello("XPUB"), [](ZmtpMessage) {}));
  EXPECT_TRUE(publisher.ready());
  std::string old = ZmtpHello("ROUTER"), plain = old;
  old[10] = 2;
  EXPECT_FALSE(ZmtpReader("ROUTER").Feed(old, [](ZmtpMessage) {}));
  plain.replace(12, 5, "PLAIN");
  EXPECT_FALSE(ZmtpReader("ROUTER").Feed(plain, [](ZmtpMessage) {}));
}

TEST_F(Zmtp, RefusesWhatBreaksTheGrammar) {
  const std::string hello = ZmtpHello("ROUTER");
  const std::string greeting = hello.substr(0, 64);
  for (const std::string& bad :
       {greeting + Frame(0, "early"), greeting + Frame(4, ""), greeting + Frame(4, "\x06READY"),
        greeting + Frame(4, "\x05READY\x0BSocket-Type"), greeting + Frame(4, "\x05ERROR\x03no!"),
        hello + Frame(8, "flag"), hello + Frame(5, "\x01x"), hello + LongHead(4, 5000),
        hello + LongHead(0, uint64_t{1} << 63)}) {
    EXPECT_FALSE(ZmtpReader("ROUTER").Feed(bad, [](ZmtpMessage) {}));
  }
  // The reader skips a command of a later version.
  EXPECT_TRUE(ZmtpReader("ROUTER").Feed(hello + Frame(4, "\x04PING"), [](ZmtpMessage) {}));
}

TEST_F(Zmtp, BoundsFrames) {
  Greet();
  for (size_t i = 0; i < ZmtpReader::kMaxFrames; ++i) ASSERT_TRUE(Feed(Frame(1, "")));
  EXPECT_FALSE(Feed(Frame(1, "")));
}

TEST_F(Zmtp, PassesOverALargeMessageWithoutHoldingIt) {
  Greet();
  const size_t size = ZmtpReader::kMaxMessage + 1;
  ASSERT_TRUE(Feed(Frame(1, "first") + LongHead(1, size)));
  const std::string piece(1 << 20, 'x');
  for (size_t left = size; left > 0;) {
    const size_t now = std::min(left, piece.size());
    ASSERT_TRUE(Feed(std::string_view(piece).substr(0, now)));
    EXPECT_EQ(ZmtpReader::held(), 0u);
    left -= now;
  }
  ASSERT_TRUE(Feed(Frame(0, "last") + Frame(0, "next")));
  ASSERT_EQ(messages_.size(), 2u);
  EXPECT_TRUE(messages_[0].oversized);
  EXPECT_TRUE(messages_[0].frames.empty());
  EXPECT_EQ(messages_[1].frames, std::vector<std::string>{"next"});
}

TEST_F(Zmtp, ManyFramesCountTogether) {
  Greet();
  const std::string half(ZmtpReader::kMaxMessage / 2, 'x');
  ASSERT_TRUE(Feed(LongHead(1, half.size()) + half));
  EXPECT_GE(ZmtpReader::held(), half.size());
  ASSERT_TRUE(Feed(LongHead(0, half.size()) + half));
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_TRUE(messages_[0].oversized);
  EXPECT_EQ(ZmtpReader::held(), 0u);
}

TEST_F(Zmtp, AllStreamsTogetherAreBounded) {
  const std::string most(ZmtpReader::kMaxMessage - 1000, 'x');
  const std::string unfinished = ZmtpHello("ROUTER") + LongHead(0, most.size() + 1) + most;
  const auto ignore = [](ZmtpMessage) {};
  {
    ZmtpReader first("ROUTER"), second("ROUTER");
    ASSERT_TRUE(first.Feed(unfinished, ignore));
    ASSERT_TRUE(second.Feed(unfinished, ignore));
    Greet();
    const std::string large(8000, 'y');
    ASSERT_TRUE(Feed(LongHead(0, large.size()) + large + Frame(0, "small")));
    EXPECT_LE(ZmtpReader::held(), ZmtpReader::kMaxHeld);
    ASSERT_EQ(messages_.size(), 2u);
    EXPECT_TRUE(messages_[0].oversized);
    EXPECT_EQ(messages_[1].frames, std::vector<std::string>{"small"});
  }
  EXPECT_EQ(ZmtpReader::held(), 0u);
}

}  // namespace
}  // namespace atl::execd
