#include "runtime/api/gate/concurrency.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <new>
#include <vector>

#include "tests/unit/api/api_fixture.h"

namespace atl::api {
namespace {

class ConcurrencyTest : public testing::Test {
 protected:
  std::shared_ptr<FakeExchange> Send() {
    auto exchange = std::make_shared<FakeExchange>();
    concurrency.Handle(exchange);
    return exchange;
  }
  // The handler keeps the exchanges that it has not answered.
  std::vector<std::shared_ptr<http::Exchange>> held;
  Concurrency concurrency{
      2, [this](std::shared_ptr<http::Exchange> exchange) { held.push_back(std::move(exchange)); }};
};

TEST_F(ConcurrencyTest, PastTheLimitAClientIsToldToComeAgain) {
  EXPECT_FALSE(Send()->response);
  EXPECT_FALSE(Send()->response);
  const auto third = Send();
  ASSERT_TRUE(third->response);
  EXPECT_EQ(third->response->status, 503);
  EXPECT_EQ(third->response->headers.Get("Retry-After"), "1");
  EXPECT_FALSE(third->response->headers.Get("X-Request-ID").empty());
  EXPECT_NE(third->response->body.find("GENERAL::OVERLOADED"), std::string::npos);
  EXPECT_EQ(held.size(), 2U);
}

TEST_F(ConcurrencyTest, WhatIsLetGoOfCountsNoMore) {
  Send();
  const auto second = Send();
  held.pop_back();
  // The request is answered or forwarded. The server may still hold it for hours.
  EXPECT_EQ(second.use_count(), 1);
  EXPECT_EQ(concurrency.in_hand(), 1U);
  EXPECT_FALSE(Send()->response);
}

TEST_F(ConcurrencyTest, EveryCopyMustGo) {
  Send();
  auto copy = held[0];
  held.clear();
  EXPECT_EQ(concurrency.in_hand(), 1U);
  copy.reset();
  EXPECT_EQ(concurrency.in_hand(), 0U);
}

TEST_F(ConcurrencyTest, TheLimitCanChangeAndBeNone) {
  concurrency.SetLimit(0);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Send()->response);
  concurrency.SetLimit(100);
  EXPECT_TRUE(Send()->response);
}

TEST(Concurrency, AnExchangeMayOutliveIt) {
  std::shared_ptr<http::Exchange> held;
  // Places the object in a buffer, because a count after its end would change the bytes there.
  alignas(Concurrency) std::array<std::byte, sizeof(Concurrency)> memory;
  auto* const concurrency = new (memory.data())
      Concurrency(1, [&held](std::shared_ptr<http::Exchange> e) { held = std::move(e); });
  auto exchange = std::make_shared<FakeExchange>();
  concurrency->Handle(exchange);
  EXPECT_EQ(concurrency->in_hand(), 1U);
  concurrency->~Concurrency();
  memory.fill(std::byte{0xaa});
  held.reset();
  EXPECT_EQ(exchange.use_count(), 1);
  for (const std::byte byte : memory) EXPECT_EQ(byte, std::byte{0xaa});
}

}  // namespace
}  // namespace atl::api
