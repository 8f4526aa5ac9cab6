// A socket on the loop. The tests of connections, with and without TLS, cover the rest.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "runtime/base/sys.h"
#include "runtime/http/stream.h"

namespace atl::http {
namespace {

class SocketTest : public testing::Test {
 protected:
  SocketTest() {
    auto pair = sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
    EXPECT_TRUE(pair.has_value());
    peer_ = std::move(pair->b);
    stream_ = *Stream::Create(*loop_, std::move(pair->a));
  }
  void Read() {
    stream_->Read(buffer_, sizeof buffer_, [this](int error, size_t n) {
      EXPECT_FALSE(in_call_);
      read_error_ = error;
      read_.append(buffer_, n);
      ++reads_;
    });
  }
  void Write(std::initializer_list<std::string_view> parts) {
    in_call_ = true;
    stream_->Write(
        parts,
        [this](int error, size_t n) {
          EXPECT_FALSE(in_call_);
          write_error_ = error;
          written_ = n;
          ++writes_;
        },
        [this] { ++progress_; });
    in_call_ = false;
  }
  std::string Take() {
    std::string all;
    char chunk[4096];
    for (ssize_t n; (n = recv(peer_.get(), chunk, sizeof chunk, MSG_DONTWAIT)) > 0;) {
      all.append(chunk, static_cast<size_t>(n));
    }
    return all;
  }
  void Turn() { loop_->Turn(0); }

  const std::unique_ptr<EventLoop> loop_ = *EventLoop::Create();
  UniqueFd peer_;
  std::shared_ptr<Stream> stream_;
  char buffer_[8];
  std::string read_;
  int read_error_ = -2, write_error_ = -2;
  size_t written_ = 0;
  int reads_ = 0, writes_ = 0, progress_ = 0;
  bool in_call_ = false;
};

TEST_F(SocketTest, TellsOfWhatWasThereAfterTheCall) {
  ASSERT_TRUE(sys::WriteAll(peer_.get(), "now").has_value());
  in_call_ = true;
  Read();
  in_call_ = false;
  EXPECT_EQ(reads_, 0);
  Turn();
  EXPECT_EQ(read_, "now");
  Turn();
  EXPECT_EQ(reads_, 1);
}

TEST_F(SocketTest, ReadsWhatCameWhileNobodyAsked) {
  ASSERT_TRUE(sys::WriteAll(peer_.get(), "0123456789").has_value());
  Turn();  // the loop gets the event and has nobody to pass it to
  Read();
  Turn();
  EXPECT_EQ(read_, "01234567");
  Read();
  Turn();
  EXPECT_EQ(read_, "0123456789");
  Read();
  Turn();
  EXPECT_EQ(reads_, 2) << "there is nothing";
  peer_.reset();
  Turn();
  EXPECT_EQ(read_error_, kEndOfStream);
}

TEST_F(SocketTest, WritesPartsInOrderWhileItReads) {
  Read();
  Write({"head ", "", "body"});
  EXPECT_EQ(Take(), "head body") << "at once";
  EXPECT_EQ(writes_, 0);
  Turn();
  EXPECT_EQ(writes_, 1);
  EXPECT_EQ(written_, 9U);
  ASSERT_TRUE(sys::WriteAll(peer_.get(), "x").has_value());
  Turn();
  EXPECT_EQ(read_, "x");
  Write({});
  Turn();
  EXPECT_EQ(writes_, 2);
}

TEST_F(SocketTest, GoesOnAsThePeerTakesIt) {
  const std::string large(3'000'000, 'x');
  Write({"<", large, ">"});
  std::string taken;
  for (int i = 0; i < 10'000 && writes_ == 0; ++i) {
    taken += Take();
    Turn();
  }
  taken += Take();
  EXPECT_EQ(write_error_, 0);
  EXPECT_EQ(written_, large.size() + 2);
  EXPECT_TRUE(taken == "<" + large + ">");
  EXPECT_GT(progress_, 2);
}

TEST_F(SocketTest, APeerThatIsGoneIsAnError) {
  peer_.reset();
  Write({"x"});
  Turn();
  EXPECT_EQ(write_error_, EPIPE);  // the write fails without a signal
}

TEST_F(SocketTest, CloseTellsWhoeverWaits) {
  const std::string large(3'000'000, 'x');
  Read();
  Write({large});
  in_call_ = true;
  stream_->Close();
  in_call_ = false;
  EXPECT_EQ(recv(peer_.get(), nullptr, 0, MSG_DONTWAIT | MSG_PEEK), 0);
  Turn();
  EXPECT_EQ(read_error_, ECANCELED);
  EXPECT_EQ(write_error_, ECANCELED);
  EXPECT_GT(written_, 0U);
  EXPECT_LT(written_, large.size());
  Read();
  Turn();
  EXPECT_EQ(reads_, 2) << "and whoever comes later";
}

TEST_F(SocketTest, ACallbackMayDropTheLastReference) {
  auto stream = std::exchange(stream_, nullptr);
  std::weak_ptr<Stream> alive = stream;
  bool told = false;
  stream->Read(buffer_, sizeof buffer_, [&told, held = stream](int, size_t) { told = true; });
  stream.reset();
  EXPECT_FALSE(alive.expired()) << "what is under way holds it";
  ASSERT_TRUE(sys::WriteAll(peer_.get(), "x").has_value());
  Turn();
  EXPECT_TRUE(told);
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace atl::http
