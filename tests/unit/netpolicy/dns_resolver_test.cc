// The cache and the exchanges behind it, as the forwarder and its owner use them.
#include "netpolicy/dns/dns_resolver.h"

#include "tests/unit/netpolicy/dns_fixture.h"

namespace atl::testing {
namespace {

using netpolicy::DnsResolver;
using netpolicy::IpAddress;

class DnsResolverTest : public DnsForwarderTest {
 protected:
  struct Result {
    std::vector<std::string> addresses;
    uint32_t ttl = 0;
    int calls = 0;
  };
  auto Into(Result& result) {
    return [&result](const std::vector<IpAddress>& addresses, uint32_t ttl) {
      for (const IpAddress& address : addresses) {
        result.addresses.emplace_back(address.span().begin(), address.span().end());
      }
      result.ttl = ttl;
      ++result.calls;
    };
  }
  void OpenResolver(const std::vector<std::string>& upstreams) {
    auto made = netpolicy::DnsUpstreams::Make(upstreams, "/nonexistent", {});
    ASSERT_TRUE(made.has_value()) << made.error().message();
    resolver = std::make_unique<DnsResolver>(*std::move(made), DnsResolver::Limits{}, clock);
    resolver->Start(loop);
  }
  Result Resolve(const std::string& name, uint16_t type = 1) {
    Result result;
    resolver->Resolve(name, type, true, Into(result));
    EXPECT_EQ(result.calls, 0) << "never at once";
    EXPECT_TRUE(loop.RunUntil([&] { return result.calls > 0; }));
    return result;
  }
  std::unique_ptr<DnsResolver> resolver;
  const std::string upstreams_address{kAddress.begin(), kAddress.end()};
};

TEST_F(DnsResolverTest, AnswersFromTheCacheAsLongAsItMay) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 1), other = DnsQueryFor("EXAMPLE.com", 2);
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress));
  clock.Advance(59);
  EXPECT_EQ(Ask(other), DnsAnswerTo(other, kAddress, 1)) << "own id, own letters, the rest of 60";
  EXPECT_EQ(AskTcp(other), DnsFramed(DnsAnswerTo(other, kAddress, 1)));
  EXPECT_EQ(upstream.queries.size(), 1U);
  clock.Advance(1);
  EXPECT_EQ(Ask(other), DnsAnswerTo(other, kAddress));
  EXPECT_EQ(upstream.queries.size(), 2U);
}

TEST_F(DnsResolverTest, DoesNotKeepWhatHasNoTtlOrFailed) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  const std::string query = DnsQueryFor("example.com", 1);
  upstream.answers = [](const std::string& q) -> std::vector<std::string> {
    return {DnsAnswerTo(q, kAddress, 0)};
  };
  EXPECT_EQ(Ask(query), DnsAnswerTo(query, kAddress, 0));
  upstream.answers = [](const std::string& q) -> std::vector<std::string> {
    return {DnsEmptyAnswerTo(q, 0x8182)};
  };
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8182));
  EXPECT_EQ(Ask(query), DnsEmptyAnswerTo(query, 0x8182));
  EXPECT_EQ(upstream.queries.size(), 3U);
}

TEST_F(DnsResolverTest, KeepsThatANameDoesNotExist) {
  Upstream upstream;
  upstream.Serve(loop);
  Open({upstream.name()});
  upstream.answers = [](const std::string& q) -> std::vector<std::string> {
    const std::string soa = DnsRecordBytes(U16(0xc00c), 6, 900, DnsSoaData("nowhere", 30));
    return {DnsRecordsTo(q, {}, {soa}, 0x8183)};
  };
  const std::string query = DnsQueryFor("nowhere", 1);
  Ask(query);
  clock.Advance(10);
  EXPECT_EQ(Ask(query),
            DnsRecordsTo(query, {}, {DnsRecordBytes(U16(0xc00c), 6, 20, DnsSoaData("nowhere", 30))},
                         0x8183));
  EXPECT_EQ(upstream.queries.size(), 1U);
  clock.Advance(20);
  Ask(query);
  EXPECT_EQ(upstream.queries.size(), 2U);
}

TEST_F(DnsResolverTest, ResolvesByWayOfTheCache) {
  Upstream upstream;
  upstream.Serve(loop);
  OpenResolver({upstream.name()});
  Result result = Resolve("example.com");
  EXPECT_EQ(result.addresses, std::vector{upstreams_address});
  EXPECT_EQ(result.ttl, 60U);
  clock.Advance(50);
  result = Resolve("Example.com");
  EXPECT_EQ(result.ttl, 10U);
  EXPECT_EQ(upstream.queries.size(), 1U);
}

TEST_F(DnsResolverTest, ResolvesToNothingWhenItFails) {
  Upstream upstream;
  upstream.Serve(loop);
  upstream.answers = [](const std::string& query) -> std::vector<std::string> {
    return {DnsRecordsTo(query, {DnsRecordBytes(DnsName("x.example"), 1, 60, "abcd")})};
  };
  OpenResolver({upstream.name()});
  EXPECT_TRUE(Resolve("malformed.example").addresses.empty());
  EXPECT_TRUE(Resolve("no name").addresses.empty());
  EXPECT_EQ(upstream.queries.size(), 1U);
  OpenResolver({});
  EXPECT_TRUE(Resolve("nobody.example").addresses.empty());
}

TEST_F(DnsResolverTest, WhoMayNotAskMayJoin) {
  SilentUpstream silent;
  silent.Serve(loop);
  OpenResolver({silent.name()});
  Result one, same, two;
  resolver->Resolve("one.example", 1, true, Into(one));
  resolver->Resolve("one.example", 1, false, Into(same));
  resolver->Resolve("two.example", 1, false, Into(two));
  EXPECT_TRUE(loop.RunUntil([&] { return two.calls == 1; }));
  EXPECT_EQ(one.calls + same.calls, 0);
}

TEST_F(DnsResolverTest, WhatIsCancelledIsNotCalled) {
  SilentUpstream upstream;
  upstream.Serve(loop);
  OpenResolver({upstream.name()});
  Result one, two, three;
  const auto first = resolver->Resolve("example.com", 1, true, Into(one));
  netpolicy::DnsResolver::Id third = 0;
  resolver->Resolve("example.com", 1, true, [&](const auto& addresses, uint32_t ttl) {
    Into(two)(addresses, ttl);
    resolver->Cancel(third);
    // The exchange is over, so this starts a new one or uses the cache.
    resolver->Resolve("example.com", 1, true, Into(two));
  });
  third = resolver->Resolve("example.com", 1, true, Into(three));
  EXPECT_TRUE(loop.RunUntil([&] { return !upstream.queries.empty(); }));
  resolver->Cancel(first);
  resolver->Cancel(first);
  const std::string answer = DnsAnswerTo(upstream.queries[0], kAddress);
  const Endpoint to = *ParseEndpoint(upstream.sources[0], 0);
  ::sendto(upstream.udp.get(), answer.data(), answer.size(), 0, to.get(), to.size);
  EXPECT_TRUE(loop.RunUntil([&] { return two.calls == 2; }));
  EXPECT_EQ(one.calls, 0);
  EXPECT_EQ(three.calls, 0);
  // A request that was about to be answered from the cache.
  const auto soon = resolver->Resolve("example.com", 1, true, Into(one));
  resolver->Cancel(soon);
  Resolve("example.com");
  EXPECT_EQ(one.calls, 0);
}

TEST_F(DnsResolverTest, AnExchangeEndsWithTheLastWhoWaits) {
  SilentUpstream silent;
  OpenResolver({silent.name()});
  const size_t watches = loop.watch_count(), timers = loop.timer_count();
  Result result;
  const auto one = resolver->Resolve("example.com", 1, true, Into(result));
  const auto two = resolver->Resolve("example.com", 1, true, Into(result));
  EXPECT_EQ(loop.watch_count(), watches + 1) << "one exchange";
  resolver->Cancel(one);
  EXPECT_EQ(loop.watch_count(), watches + 1);
  resolver->Cancel(two);
  EXPECT_EQ(loop.watch_count(), watches);
  EXPECT_EQ(loop.timer_count(), timers);
}

TEST_F(DnsResolverTest, LeavesNothingOnTheLoop) {
  Upstream upstream;
  upstream.Serve(loop);
  OpenResolver({upstream.name()});
  Resolve("example.com");
  Result cached, asked;
  resolver->Resolve("example.com", 1, true, Into(cached));
  resolver->Resolve("example.org", 1, true, Into(asked));
  resolver.reset();
  EXPECT_EQ(loop.watch_count(), 2U) << "the upstream's own";
  EXPECT_EQ(loop.timer_count(), 0U);
}

}  // namespace
}  // namespace atl::testing
