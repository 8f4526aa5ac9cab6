#include "netpolicy/dns/dns_sources.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::netpolicy {
namespace {

constexpr int64_t kOneSecond = 1'000'000;
constexpr size_t kMuch = 1000;

TEST(DnsBucket, AllowsABurstAndThenARate) {
  DnsBucket bucket;
  const DnsRate rate{10, 5};
  int64_t now = 1000 * kOneSecond;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bucket.Take(rate, now)) << i;
  EXPECT_FALSE(bucket.Take(rate, now));
  now += kOneSecond / 10;
  EXPECT_TRUE(bucket.Take(rate, now));
  EXPECT_FALSE(bucket.Take(rate, now));
  EXPECT_FALSE(bucket.Full(now));
  now += 100 * kOneSecond;
  EXPECT_TRUE(bucket.Full(now));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(bucket.Take(rate, now)) << i;
  EXPECT_FALSE(bucket.Take(rate, now)) << "no more than the burst is saved";
}

TEST(DnsSources, CountEachSourceByItself) {
  DnsSources sources({.questions = {1, 2}, .leaving = {1, 1}, .queries = 1, .connections = 2});
  EXPECT_TRUE(sources.TakeQuestion("a", 0));
  EXPECT_TRUE(sources.TakeQuestion("a", 0));
  EXPECT_FALSE(sources.TakeQuestion("a", 0));
  EXPECT_TRUE(sources.TakeQuestion("b", 0));
  EXPECT_TRUE(sources.TakeLeaving("a", 0)) << "another bucket";
  EXPECT_FALSE(sources.TakeLeaving("a", 0));
  EXPECT_TRUE(sources.AddQuery("a", kMuch, 0));
  EXPECT_FALSE(sources.AddQuery("a", kMuch, 0));
  sources.RemoveQuery("a");
  EXPECT_TRUE(sources.AddQuery("a", kMuch, 0));
  EXPECT_TRUE(sources.AddConnection("a", kMuch, 0));
  EXPECT_TRUE(sources.AddConnection("a", kMuch, 0));
  EXPECT_FALSE(sources.AddConnection("a", kMuch, 0));
  sources.RemoveConnection("a");
  EXPECT_TRUE(sources.AddConnection("a", kMuch, 0));
}

TEST(DnsSources, ForgetsWhoHasEnded) {
  DnsSources sources({.questions = {1, 1}});
  EXPECT_TRUE(sources.TakeQuestion("a", 0));
  EXPECT_FALSE(sources.TakeQuestion("a", 0));
  sources.Forget("a");
  EXPECT_EQ(sources.size(), 0U);
  EXPECT_TRUE(sources.TakeQuestion("a", 0));
}

TEST(DnsSources, DoNotPileUp) {
  DnsSources sources({.questions = {1, 1}});
  const auto name = [](int i) { return std::to_string(i); };
  EXPECT_TRUE(sources.AddQuery("busy", kMuch, 0));
  for (int i = 0; i < 20'000; ++i) sources.TakeQuestion(name(i), int64_t{i} * kOneSecond);
  EXPECT_LT(sources.size(), 2000U);
  EXPECT_FALSE([&] {
    for (int i = 0; i < 64; ++i) {
      if (!sources.AddQuery("busy", kMuch, 20'000 * kOneSecond)) return false;
    }
    return true;
  }()) << "who has something under way stays";
}

}  // namespace
}  // namespace atl::netpolicy
