#include "runtime/http/message.h"
#include "runtime/http/query.h"

#include <gtest/gtest.h>

namespace atl::http {
namespace {

TEST(Headers, CompareNamesWithoutCase) {
  Headers headers;
  headers.Add("X-One", "1");
  headers.Add("x-one", "2");
  EXPECT_EQ(headers.Get("X-ONE"), "1");
  EXPECT_TRUE(headers.Has("x-One"));
  headers.Set("x-ONE", "3");
  ASSERT_EQ(headers.list.size(), 1U);
  EXPECT_EQ(headers.Get("x-one"), "3");
  headers.Remove("X-one");
  EXPECT_FALSE(headers.Has("x-one"));
  EXPECT_EQ(headers.Get("x-one"), "");
}

TEST(Request, SplitsItsTarget) {
  Request request;
  request.target = "/a%2Fb?x=1?2";
  EXPECT_EQ(request.path(), "/a%2Fb");
  EXPECT_EQ(request.query(), "x=1?2");
  request.target = "/a";
  EXPECT_EQ(request.path(), "/a");
  EXPECT_EQ(request.query(), "");
}

TEST(PercentDecode, DecodesOrRefuses) {
  std::string out;
  EXPECT_TRUE(PercentDecode("a%2Fb%20+%e4", &out));
  EXPECT_EQ(out, "a/b +\xe4");
  for (const char* bad : {"%", "%1", "a%g0", "%0g", "%%20"}) {
    EXPECT_FALSE(PercentDecode(bad, &out)) << bad;
  }
}

TEST(ParseQuery, KeepsOrderAndRepetition) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(ParseQuery("b=1&a=x+y%26z&b=2&c&=d&&e=f=g"),
            (Pairs{{"b", "1"}, {"a", "x y&z"}, {"b", "2"}, {"c", ""}, {"", "d"}, {"e", "f=g"}}));
  EXPECT_EQ(ParseQuery("a=%zz"), (Pairs{{"a", "%zz"}}));
  EXPECT_TRUE(ParseQuery("").empty());
}

}  // namespace
}  // namespace atl::http
