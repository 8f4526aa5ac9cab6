// The guard's relay between a connection of the daemon and execd's.
#include "runtime/guard/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/sys.h"

namespace atl::guard {
namespace {

class RelayTest : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = std::move(*EventLoop::Create());
    auto near = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
    auto far = *sys::UnixPair(SOCK_STREAM | SOCK_NONBLOCK);
    client_ = std::move(near.a);
    execd_ = std::move(far.a);
    relay_ = std::make_unique<Relay>(*loop_, std::move(near.b), std::move(far.b),
                                     [this] { relay_.reset(); });
    ASSERT_TRUE(relay_->Begin());
  }

  static void Send(const UniqueFd& socket, const std::string& text) {
    ASSERT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Reads to the end of the stream, or `size` bytes.
  std::string Receive(const UniqueFd& socket, size_t size = SIZE_MAX) {
    std::string all;
    char buffer[65536];
    for (int turns = 0; all.size() < size && turns < 20000; ++turns) {
      const ssize_t n = ::recv(socket.get(), buffer, std::min(sizeof buffer, size - all.size()), 0);
      if (n == 0) break;
      if (n > 0) all.append(buffer, static_cast<size_t>(n));
      if (n < 0) loop_->Turn(1000);
    }
    return all;
  }

  std::unique_ptr<EventLoop> loop_;
  UniqueFd client_, execd_;
  std::unique_ptr<Relay> relay_;
};

TEST_F(RelayTest, PassesBytesBothWays) {
  Send(client_, "GET");
  EXPECT_EQ(Receive(execd_, 3), "GET");
  Send(execd_, "200");
  EXPECT_EQ(Receive(client_, 3), "200");
  EXPECT_TRUE(relay_);
}

TEST_F(RelayTest, AHalfClosedSideIsHalfClosedOnTheOther) {
  Send(client_, "body");
  ::shutdown(client_.get(), SHUT_WR);
  EXPECT_EQ(Receive(execd_), "body");
  Send(execd_, "answer");
  ::shutdown(execd_.get(), SHUT_WR);
  EXPECT_EQ(Receive(client_), "answer");
  for (int turns = 0; relay_ && turns < 100; ++turns) loop_->Turn(1000);
  EXPECT_FALSE(relay_);
}

TEST_F(RelayTest, WhatAClosedSideHasSentArrivesWhole) {
  // More than both sockets and the relay's buffer hold together.
  const std::string large(4 << 20, 'x');
  size_t sent = 0;
  std::string got;
  while (sent < large.size()) {
    const ssize_t n = ::send(execd_.get(), large.data() + sent, large.size() - sent, MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
    if (n < 0) {
      ASSERT_EQ(errno, EAGAIN);
      got += Receive(client_, 65536);
    }
  }
  execd_.reset();
  for (int turns = 0; turns < 20; ++turns) loop_->Turn(0);
  got += Receive(client_);
  EXPECT_EQ(got.size(), large.size());
  for (int turns = 0; relay_ && turns < 100; ++turns) loop_->Turn(1000);
  EXPECT_FALSE(relay_);
}

TEST_F(RelayTest, AClientThatLeavesEndsTheOtherSide) {
  client_.reset();
  EXPECT_EQ(Receive(execd_), "");
  for (int turns = 0; relay_ && turns < 100; ++turns) loop_->Turn(1000);
  EXPECT_FALSE(relay_);
}

TEST_F(RelayTest, AFullSideStopsTheReading) {
  // Nobody reads at the client: the relay takes no more than its buffer.
  const std::string block(1 << 20, 'x');
  size_t sent = 0;
  for (int turns = 0; turns < 200; ++turns) {
    const ssize_t n = ::send(execd_.get(), block.data(), block.size(), MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<size_t>(n);
    loop_->Turn(0);
  }
  EXPECT_LT(sent, size_t{4} << 20);
  EXPECT_EQ(Receive(client_, sent).size(), sent);
}

}  // namespace
}  // namespace atl::guard
