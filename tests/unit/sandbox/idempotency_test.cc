#include "runtime/sandbox/store/idempotency.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::sandbox {
namespace {

KeyRecord Record(const std::string& key, int64_t made_ms, const std::string& tenant = "") {
  return {tenant, key, "fingerprint of " + key, {"sandbox of " + key}, made_ms};
}

TEST(Idempotency, FindsWhatWasAdded) {
  Idempotency keys;
  keys.Add(Record("a", 1));
  ASSERT_NE(keys.Find("", "a"), nullptr);
  EXPECT_EQ(keys.Find("", "a")->sandboxes, std::vector<std::string>{"sandbox of a"});
  EXPECT_EQ(keys.Find("", "b"), nullptr);
}

TEST(Idempotency, AKeyIsOneForEachTenant) {
  Idempotency keys;
  keys.Add(Record("a", 1, "red"));
  keys.Add(Record("a", 2));
  EXPECT_EQ(keys.Find("blue", "a"), nullptr);
  ASSERT_NE(keys.Find("red", "a"), nullptr);
  EXPECT_EQ(keys.Find("red", "a")->made_ms, 1);
  EXPECT_EQ(keys.Find("", "a")->made_ms, 2);
  auto* const attempt = reinterpret_cast<Attempt*>(&keys);
  keys.Begin("red", "b", attempt, 3);
  EXPECT_EQ(keys.UnderWay("blue", "b"), nullptr);
  EXPECT_EQ(keys.UnderWay("", "b"), nullptr);
  keys.End("blue", "b");
  EXPECT_EQ(keys.UnderWay("red", "b"), attempt);
}

TEST(Idempotency, AFloodIsBoundedAndTheOldestGo) {
  Idempotency keys;
  for (size_t i = 0; i < kMaxKeys + 1000; ++i) {
    keys.Add(Record(std::to_string(i), static_cast<int64_t>(i)));
  }
  EXPECT_EQ(keys.size(), kMaxKeys);
  EXPECT_EQ(keys.Find("", "999"), nullptr);
  EXPECT_NE(keys.Find("", "1000"), nullptr);
}

TEST(Idempotency, ADayIsEnough) {
  Idempotency keys;
  keys.Add(Record("old", 0));
  keys.Add(Record("new", kKeyLifeMs));
  EXPECT_NE(keys.Find("", "old"), nullptr);
  keys.Add(Record("newer", kKeyLifeMs + 1));
  EXPECT_EQ(keys.Find("", "old"), nullptr);
  EXPECT_NE(keys.Find("", "new"), nullptr);
  // A request that has not been carried out yet counts as well.
  keys.Begin("", "newest", nullptr, 2 * kKeyLifeMs + 1);
  EXPECT_EQ(keys.Find("", "new"), nullptr);
  EXPECT_NE(keys.Find("", "newer"), nullptr);
}

}  // namespace
}  // namespace atl::sandbox
