#include "runtime/sandbox/create/admission.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::sandbox {
namespace {

TEST(Admission, RunsTwoAtOnceAndTheRestInOrder) {
  Admission admission(2, 10);
  std::string order;
  for (char name : std::string("abcde")) {
    ASSERT_TRUE(admission.Enter([&order, name] { order.push_back(name); }));
  }
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(admission.active(), 2U);
  EXPECT_EQ(admission.waiting(), 3U);
  admission.Leave();
  EXPECT_EQ(order, "abc");
  admission.Leave();
  admission.Leave();
  EXPECT_EQ(order, "abcde");
  EXPECT_FALSE(admission.idle());
  admission.Leave();
  admission.Leave();
  EXPECT_TRUE(admission.idle());
}

TEST(Admission, AFullQueueIsRefused) {
  Admission admission(1, 2);
  int runs = 0;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(admission.Enter([&] { ++runs; }));
  const auto refused = admission.Enter([&] { ++runs; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  for (int i = 0; i < 3; ++i) admission.Leave();
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(admission.Enter([&] { ++runs; }));
}

TEST(Admission, RunsThatLeaveAtOnceDoNotRecurse) {
  Admission admission(1, 200000);
  int runs = 0;
  ASSERT_TRUE(admission.Enter([] {}));
  for (int i = 0; i < 200000; ++i) {
    ASSERT_TRUE(admission.Enter([&] {
      ++runs;
      admission.Leave();
    }));
  }
  admission.Leave();
  EXPECT_EQ(runs, 200000);
  EXPECT_TRUE(admission.idle());
}

}  // namespace
}  // namespace atl::sandbox
