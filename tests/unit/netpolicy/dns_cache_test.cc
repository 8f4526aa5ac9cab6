#include "netpolicy/dns/dns_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace atl::netpolicy {
namespace {

constexpr int64_t kSecond = 1'000'000;

DnsLookup Lookup(const std::string& name, uint16_t type = kDnsTypeA) {
  return *LookupOf(name, type);
}

std::shared_ptr<const DnsAnswer> Answer(uint32_t ttl, size_t size = 16) {
  auto answer = std::make_shared<DnsAnswer>();
  answer->ttl = ttl;
  answer->records.resize(size);
  return answer;
}

TEST(DnsCache, KeepsAnswersAsLongAsTheirTtl) {
  DnsCache cache({});
  cache.Keep(Lookup("a"), Answer(60), 5 * kSecond);
  EXPECT_EQ(cache.Find(Lookup("a"), 5 * kSecond).age, 0U);
  const DnsCache::Hit late = cache.Find(Lookup("a"), 65 * kSecond - 1);
  ASSERT_TRUE(late.answer);
  EXPECT_EQ(late.age, 59U);
  EXPECT_FALSE(cache.Find(Lookup("a"), 65 * kSecond).answer);
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(DnsCache, TellsLookupsApart) {
  DnsCache cache({});
  cache.Keep(Lookup("a"), Answer(60), 0);
  EXPECT_FALSE(cache.Find(Lookup("b"), 0).answer);
  EXPECT_FALSE(cache.Find(Lookup("a", kDnsTypeAaaa), 0).answer);
  DnsLookup lookup = Lookup("a");
  lookup.dnssec_ok = true;
  EXPECT_FALSE(cache.Find(lookup, 0).answer);
  lookup = Lookup("a");
  lookup.checking_disabled = true;
  EXPECT_FALSE(cache.Find(lookup, 0).answer);
  EXPECT_TRUE(cache.Find(Lookup("A"), 0).answer);
}

TEST(DnsCache, DoesNotKeepWhatIsGoneOrFailed) {
  DnsCache cache({});
  cache.Keep(Lookup("a"), Answer(60), 0);
  cache.Keep(Lookup("a"), Answer(0), 0);
  EXPECT_EQ(cache.size(), 0U) << "the older answer is no longer true";
  auto failed = std::make_shared<DnsAnswer>();
  failed->ttl = 60;
  failed->rcode = DnsRcode::kServerFailure;
  cache.Keep(Lookup("b"), failed, 0);
  auto truncated = std::make_shared<DnsAnswer>();
  truncated->ttl = 60;
  truncated->truncated = true;
  cache.Keep(Lookup("c"), truncated, 0);
  EXPECT_EQ(cache.size(), 0U);
  auto negative = std::make_shared<DnsAnswer>();
  negative->ttl = 60;
  negative->rcode = DnsRcode::kNxDomain;
  cache.Keep(Lookup("d"), negative, 0);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(DnsCache, LosesWhatWasNotUsedTheLongest) {
  DnsCache cache({.entries = 3});
  for (const char* name : {"a", "b", "c"}) cache.Keep(Lookup(name), Answer(60), 0);
  EXPECT_TRUE(cache.Find(Lookup("a"), 0).answer);
  cache.Keep(Lookup("d"), Answer(60), 0);
  EXPECT_EQ(cache.size(), 3U);
  EXPECT_TRUE(cache.Find(Lookup("a"), 0).answer);
  EXPECT_FALSE(cache.Find(Lookup("b"), 0).answer);
}

TEST(DnsCache, HasABoundInBytes) {
  DnsCache cache({.entries = 1000, .bytes = 100'000});
  for (int i = 0; i < 100; ++i) cache.Keep(Lookup(std::to_string(i)), Answer(60, 5000), 0);
  EXPECT_LE(cache.bytes(), 100'000U);
  EXPECT_GT(cache.size(), 10U);
  EXPECT_LT(cache.size(), 20U);
  const size_t before = cache.size();
  cache.Keep(Lookup("huge"), Answer(60, 200'000), 0);
  EXPECT_EQ(cache.size(), before) << "nothing goes for what does not fit";
}

}  // namespace
}  // namespace atl::netpolicy
