// Answers whose body is written in pieces.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "tests/unit/http/socket_peer.h"

namespace atl::http {
namespace {

constexpr char kGet[] = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

// A server whose handler hands over the stream.
class StreamTest : public testing::Test {
 protected:
  explicit StreamTest(const ServerConfig& config = {})
      : server(
            [this](const std::shared_ptr<Exchange>& exchange) {
              Response head;
              head.headers.Set("Content-Type", "text/plain");
              // Runs before the head is sent, because the test may see the head at once.
              ++opened;
              stream = exchange->Stream(std::move(head));
              stream->OnEvents([this] { ++drained; }, [this] { closed.set_value(); });
            },
            config) {}
  ~StreamTest() override {
    server.OnLoop([this] { stream.reset(); });
  }
  void Write(const std::string& bytes) {
    server.OnLoop([&] { stream->Write(bytes); });
  }

  std::shared_ptr<ResponseStream> stream;
  std::atomic<int> opened = 0;
  std::atomic<int> drained = 0;
  std::promise<void> closed;
  RunningServer server;
};

TEST_F(StreamTest, BytesComeAsTheyAreWritten) {
  Peer peer = server.Connect();
  peer.Send(kGet);
  const std::string head = peer.ReadUntil("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(FieldsOf(head, "transfer-encoding"), std::vector<std::string>{"chunked"});
  EXPECT_TRUE(FieldsOf(head, "content-length").empty());
  for (const char* bytes : {"one", "two"}) {
    Write(bytes);
    EXPECT_EQ(peer.ReadExactly(8), std::string("3\r\n") + bytes + "\r\n");
  }
  server.OnLoop([&] { stream->Finish(); });
  EXPECT_EQ(peer.ReadExactly(5), "0\r\n\r\n");
  // The connection can be used again.
  peer.Send(kGet);
  EXPECT_TRUE(peer.ReadUntil("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(opened, 2);
}

TEST_F(StreamTest, OneThatIsDroppedIsNotComplete) {
  Peer peer = server.Connect();
  peer.Send(kGet);
  peer.ReadUntil("\r\n\r\n");
  Write("part");
  EXPECT_EQ(peer.ReadExactly(9), "4\r\npart\r\n");
  server.OnLoop([&] { stream.reset(); });
  EXPECT_EQ(peer.ReadToEnd(), "");  // without the last chunk
}

TEST_F(StreamTest, TheEndOfTheClientIsNoticed) {
  Peer peer = server.Connect();
  peer.Send(kGet);
  peer.ReadUntil("\r\n\r\n");
  peer.Close();
  closed.get_future().wait();
  server.OnLoop([&] {
    EXPECT_TRUE(stream->closed());
    stream->Write("nobody");
    stream->Finish();
    EXPECT_EQ(stream->backlog(), 0U);
  });
}

TEST_F(StreamTest, ASlowClientIsSeen) {
  Peer peer = server.Connect();
  peer.Send(kGet);
  peer.ReadUntil("\r\n\r\n");
  const std::string large(32 << 20, 'x');
  Write(large);
  server.OnLoop([&] { EXPECT_GT(stream->backlog(), 1U << 20); });
  const int before = drained;
  EXPECT_EQ(peer.ReadExactly(9 + large.size() + 2).size(), large.size() + 11);
  Write("y");
  EXPECT_EQ(peer.ReadExactly(6), "1\r\ny\r\n");
  server.OnLoop([] {});
  EXPECT_GT(drained, before);
}

ServerConfig Impatient() {
  ServerConfig config;
  config.answer_timeout_seconds = 1;
  return config;
}

class ImpatientStreamTest : public StreamTest {
 protected:
  ImpatientStreamTest() : StreamTest(Impatient()) {}
};

TEST_F(ImpatientStreamTest, AClientThatTakesNothingIsDisconnected) {
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    closed = {};
    Peer peer = server.Connect();
    peer.Send("GET /x " + std::string(version) + "\r\nHost: h\r\n\r\n");
    peer.ReadUntil("\r\n\r\n");
    Write(std::string(32 << 20, 'x'));
    closed.get_future().wait();
    server.OnLoop([&] {
      EXPECT_TRUE(stream->closed());
      EXPECT_EQ(stream->backlog(), 0U);
    });
    bool reset = false;
    peer.ReadToEnd(&reset);
    EXPECT_TRUE(reset) << "what has come does not look complete";
  }
}

TEST_F(ImpatientStreamTest, AStreamThatHasNothingToSayMayWait) {
  Peer peer = server.Connect();
  peer.Send(kGet);
  peer.ReadUntil("\r\n\r\n");
  Write("x");
  EXPECT_EQ(peer.ReadExactly(6), "1\r\nx\r\n");
  // The later deadline of another client passes.
  Peer slow = server.Connect();
  std::shared_ptr<ResponseStream> first;
  server.OnLoop([&] { first = std::exchange(stream, nullptr); });
  slow.Send(kGet);
  slow.ReadUntil("\r\n\r\n");
  Write(std::string(32 << 20, 'x'));
  closed.get_future().wait();
  server.OnLoop([&] {
    EXPECT_FALSE(first->closed());
    first->Write("y");
    first.reset();
  });
  EXPECT_EQ(peer.ReadExactly(6), "1\r\ny\r\n");
}

TEST_F(StreamTest, AnOldClientGetsTheEndOfTheConnection) {
  Peer peer = server.Connect();
  peer.Send("GET /x HTTP/1.0\r\n\r\n");
  const std::string head = peer.ReadUntil("\r\n\r\n");
  EXPECT_TRUE(FieldsOf(head, "transfer-encoding").empty());
  EXPECT_EQ(FieldsOf(head, "connection"), std::vector<std::string>{"close"});
  server.OnLoop([&] {
    stream->Write("all");
    stream->Finish();
  });
  EXPECT_EQ(peer.ReadToEnd(), "all");
}

}  // namespace
}  // namespace atl::http
