#include "runtime/base/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/descriptors.h"

namespace atl {
namespace {

class AcceptorTest : public testing::Test {
 protected:
  AcceptorTest() : loop_(*EventLoop::Create()) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(::bind(listener_.get(), generic(), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 100), 0);
    EXPECT_EQ(::getsockname(listener_.get(), generic(), &size), 0);
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &usual_), 0);
  }
  ~AcceptorTest() override { ::setrlimit(RLIMIT_NOFILE, &usual_); }

  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }
  UniqueFd Client() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), generic(), sizeof address_), 0);
    return fd;
  }
  void Start(Acceptor::Config config = {.name = "test"}) {
    auto started =
        Acceptor::Start(*loop_, listener_.get(), std::move(config), [this](auto& connection) {
          accepted_.push_back(std::move(connection.socket));
          if (on_accepted_) on_accepted_();
        });
    ASSERT_TRUE(started.has_value());
    acceptor_ = std::move(*started);
  }
  // Turns the loop until `condition` holds, or for 10 s.
  template <typename F>
  bool Until(F condition) {
    const int64_t end = MonotonicMicros() + 10'000'000;
    for (turns_ = 0; !condition() && MonotonicMicros() < end; ++turns_) loop_->Turn(100'000);
    return condition();
  }
  // Leaves no descriptor free.
  void TakeAll() {
    rlimit none = usual_;
    none.rlim_cur = static_cast<rlim_t>(UniqueFd(::fcntl(0, F_DUPFD_CLOEXEC, 0)).get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  // Returns true if the connection was reset, false if it still waits.
  static bool IsReset(const UniqueFd& client) {
    char byte;
    return ::recv(client.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == ECONNRESET;
  }

  std::unique_ptr<EventLoop> loop_;
  UniqueFd listener_;
  sockaddr_in address_{};
  rlimit usual_{};
  std::vector<UniqueFd> accepted_;
  std::function<void()> on_accepted_;
  std::unique_ptr<Acceptor> acceptor_;
  int turns_ = 0;
};

TEST_F(AcceptorTest, AcceptsWhatComes) {
  Start();
  const UniqueFd one = Client(), two = Client();
  EXPECT_TRUE(Until([&] { return accepted_.size() == 2; }));
  EXPECT_NE(::fcntl(accepted_[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(accepted_[0].get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(AcceptorTest, WaitsForADescriptorWithoutSpinning) {
  Start();
  const UniqueFd client = Client();
  TakeAll();
  const int64_t begun = MonotonicMicros();
  EXPECT_TRUE(Until([&] { return MonotonicMicros() - begun > 350'000; }));
  // Each retry takes a turn or two. A loop that spins makes some 100,000 turns.
  EXPECT_LT(turns_, 20);
  EXPECT_TRUE(accepted_.empty());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual_), 0);
  EXPECT_TRUE(Until([&] { return accepted_.size() == 1; }));
  EXPECT_FALSE(IsReset(client));
}

TEST_F(AcceptorTest, WaitsWhileItIsNotOpen) {
  Start();
  on_accepted_ = [&] { acceptor_->SetOpen(false); };
  const UniqueFd one = Client(), two = Client();
  EXPECT_TRUE(Until([&] { return accepted_.size() == 1; }));
  loop_->Turn(0);
  loop_->Turn(0);
  EXPECT_EQ(accepted_.size(), 1U);
  on_accepted_ = nullptr;
  acceptor_->SetOpen(true);
  EXPECT_TRUE(Until([&] { return accepted_.size() == 2; }));
}

TEST_F(AcceptorTest, MayBeDestroyedByAConnection) {
  Start();
  on_accepted_ = [&] { acceptor_.reset(); };
  const UniqueFd one = Client(), two = Client();
  EXPECT_TRUE(Until([&] { return accepted_.size() == 1; }));
  loop_->Turn(0);
  EXPECT_EQ(accepted_.size(), 1U);
}

TEST_F(AcceptorTest, IsDestroyedWhileItWaits) {
  Start();
  const UniqueFd client = Client();
  TakeAll();
  loop_->Turn(0);
  acceptor_.reset();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual_), 0);
  loop_->Turn(200'000);
  EXPECT_TRUE(accepted_.empty());
}

// Runs `check` in a child, because ReserveDescriptors cannot be undone.
void InAChild(const std::function<void()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    check();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(AcceptorTest, LeavesTheSpareDescriptorsToOthers) {
  InAChild([&] {
    loop_ = *EventLoop::Create();
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(Client());
    rlimit few{200, 200};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    ASSERT_TRUE(ReserveDescriptors().has_value());
    std::vector<UniqueFd> held;
    do {
      held.emplace_back(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    } while (!IsSpare(held.back().get()));
    held.pop_back();
    Start();
    const int64_t begun = MonotonicMicros();
    EXPECT_TRUE(Until([&] { return MonotonicMicros() - begun > 350'000; }));
    EXPECT_TRUE(accepted_.empty());
    EXPECT_TRUE(IsReset(clients[0]));
    for (size_t i = 1; i < clients.size(); ++i) EXPECT_FALSE(IsReset(clients[i]));
    held.resize(held.size() - 3);
    EXPECT_TRUE(Until([&] { return accepted_.size() == 3; }));
    for (const UniqueFd& fd : accepted_) EXPECT_FALSE(IsSpare(fd.get()));
  });
}

TEST_F(AcceptorTest, TakesTheReserveIfItIsKeptForIt) {
  InAChild([&] {
    loop_ = *EventLoop::Create();
    const UniqueFd client = Client();
    rlimit few{200, 200};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    ASSERT_TRUE(ReserveDescriptors().has_value());
    std::vector<UniqueFd> held;
    do {
      held.emplace_back(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    } while (held.back());
    Start({.name = "test", .may_take_reserve = true});
    EXPECT_TRUE(Until([&] { return accepted_.size() == 1; }));
  });
}

}  // namespace
}  // namespace atl
