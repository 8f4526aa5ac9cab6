#include "runtime/sandbox/state/expiry.h"

#include <gtest/gtest.h>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kSecond = 1'000'000;

class ExpiryTest : public testing::Test {
 protected:
  FakeClock clock;
  FakeLoop loop{clock};
  std::string expired;
  Expiry expiry{loop, clock, [this](const std::string& id) { expired += id; }};
  int64_t now() const { return clock.unix_ms; }
};

TEST_F(ExpiryTest, FiresInOrderAndOnce) {
  expiry.Set("b", now() + 20'000);
  expiry.Set("a", now() + 10'000);
  expiry.Set("c", now() + 90'000);
  loop.Pass(9 * kSecond);
  EXPECT_EQ(expired, "");
  loop.Pass(2 * kSecond);
  EXPECT_EQ(expired, "a");
  loop.Pass(100 * kSecond);
  EXPECT_EQ(expired, "abc");
  EXPECT_EQ(expiry.size(), 0U);
  EXPECT_EQ(loop.timers(), 0U);
}

// `atoll run -d --rm`: the end removes the sandbox, long before its timeout.
TEST_F(ExpiryTest, WhatIsToBeRemovedAtItsEndGoesAMinuteLater) {
  Sandbox sandbox;
  sandbox.id = "a";
  sandbox.state = State::kTerminated;
  sandbox.transition_at_ms = now();
  for (const std::optional<int64_t> timeout : {std::optional<int64_t>(now() + 900'000), {}}) {
    expired.clear();
    sandbox.expires_at_ms = timeout;
    sandbox.spec.extensions["atoll.rm"] = "false";
    expiry.SetDeadline(sandbox);
    loop.Pass(100 * kSecond);
    EXPECT_EQ(expired, "");
    sandbox.spec.extensions["atoll.rm"] = "true";
    sandbox.transition_at_ms = now();
    sandbox.state = State::kRunning;
    expiry.SetDeadline(sandbox);
    loop.Pass(100 * kSecond);
    EXPECT_EQ(expired, "");
    sandbox.state = State::kFailed;
    sandbox.transition_at_ms = now();
    expiry.SetDeadline(sandbox);
    loop.Pass(59 * kSecond);
    EXPECT_EQ(expired, "");
    loop.Pass(2 * kSecond);
    EXPECT_EQ(expired, "a");
  }
}

TEST_F(ExpiryTest, CanBeMovedAndRemoved) {
  expiry.Set("a", now() + 10'000);
  expiry.Set("b", now() + 10'000);
  expiry.Set("a", now() + 30'000);
  expiry.Remove("b");
  loop.Pass(20 * kSecond);
  EXPECT_EQ(expired, "");
  expiry.Set("a", now() + 1'000);
  loop.Pass(2 * kSecond);
  EXPECT_EQ(expired, "a");
}

TEST_F(ExpiryTest, ThePastFiresFromTheLoop) {
  expiry.Set("a", now() - 1);
  EXPECT_EQ(expired, "");
  loop.Run();
  EXPECT_EQ(expired, "a");
}

TEST_F(ExpiryTest, AJumpOfTheWallClockIsNoticedWithinHalfAMinute) {
  expiry.Set("a", now() + 3600'000);
  loop.Pass(1 * kSecond);
  clock.unix_ms += 2 * 3600'000;  // somebody set the clock
  loop.Pass(30 * kSecond);
  EXPECT_EQ(expired, "a");
}

TEST_F(ExpiryTest, AJumpBackwardsPutsItOff) {
  expiry.Set("a", now() + 10'000);
  clock.unix_ms -= 60'000;
  loop.Pass(30 * kSecond);
  EXPECT_EQ(expired, "");
  loop.Pass(45 * kSecond);
  EXPECT_EQ(expired, "a");
}

TEST_F(ExpiryTest, TheCallbackMaySetAndRemove) {
  Expiry* self = nullptr;
  int fired = 0;
  Expiry chain(loop, clock, [&](const std::string&) {
    if (++fired < 3) self->Set("x", clock.unix_ms + 1000);
    self->Remove("y");
  });
  self = &chain;
  chain.Set("x", clock.unix_ms + 1000);
  chain.Set("y", clock.unix_ms + 1000);
  loop.Pass(10 * kSecond);
  EXPECT_EQ(fired, 3);
}

}  // namespace
}  // namespace atl::sandbox
