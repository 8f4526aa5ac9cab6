#include "runtime/api/requests/list_query.h"

#include <gtest/gtest.h>

#include <deque>

namespace atl::api {
namespace {

using sandbox::Sandbox;
using sandbox::State;

class ListTest : public testing::Test {
 protected:
  void Add(const std::string& id, int64_t created, State state,
           std::map<std::string, std::string> metadata = {}) {
    Sandbox s;
    s.id = id;
    s.created_at_ms = created;
    s.state = state;
    s.metadata = std::move(metadata);
    sandboxes.push_back(std::move(s));
  }
  Page List(const std::string& text) {
    auto query = ParseListQuery(text);
    EXPECT_TRUE(query) << text;
    std::vector<const Sandbox*> all;
    for (const Sandbox& s : sandboxes) all.push_back(&s);
    return SelectPage(all, *query);
  }
  std::string Ids(const std::string& text) {
    std::string ids;
    for (const Sandbox* s : List(text).items) ids += s->id;
    return ids;
  }
  std::deque<Sandbox> sandboxes;
};

TEST_F(ListTest, NewestFirst) {
  Add("a", 1, State::kRunning);
  Add("c", 3, State::kRunning);
  Add("b", 2, State::kRunning);
  Add("d", 3, State::kRunning);
  EXPECT_EQ(Ids(""), "dcba");
}

TEST_F(ListTest, Pages) {
  for (int i = 0; i < 25; ++i) Add(std::string(1, static_cast<char>('a' + i)), i, State::kRunning);
  Page page = List("");
  EXPECT_EQ(page.items.size(), 20U);
  EXPECT_EQ(page.total_items, 25);
  EXPECT_EQ(page.total_pages, 2);
  EXPECT_TRUE(page.has_next);
  page = List("page=2");
  EXPECT_EQ(page.items.size(), 5U);
  EXPECT_FALSE(page.has_next);
  EXPECT_EQ(Ids("page=3&pageSize=10"), "edcba");
  EXPECT_EQ(Ids("page=25&pageSize=1"), "a");
  page = List("page=26&pageSize=1");
  EXPECT_TRUE(page.items.empty());
  EXPECT_FALSE(page.has_next);
  EXPECT_EQ(List("pageSize=200").items.size(), 25U);
  EXPECT_EQ(List("page=1099511627776&pageSize=200").items.size(), 0U);
}

TEST_F(ListTest, NothingHasNoPages) {
  const Page page = List("");
  EXPECT_EQ(page.total_pages, 0);
  EXPECT_FALSE(page.has_next);
}

TEST_F(ListTest, States) {
  Add("r", 1, State::kRunning);
  Add("f", 2, State::kFailed);
  Add("t", 3, State::kTerminated);
  EXPECT_EQ(Ids("state=Running"), "r");
  EXPECT_EQ(Ids("state=running&state=FAILED"), "fr");
  EXPECT_EQ(Ids("state=Paused"), "");
}

TEST_F(ListTest, Metadata) {
  Add("a", 1, State::kRunning, {{"k", "v"}, {"x", "1"}});
  Add("b", 2, State::kRunning, {{"k", "v"}, {"x", ""}});
  Add("c", 3, State::kRunning, {{"k", "w"}});
  EXPECT_EQ(Ids("metadata=k%3Dv"), "ba");
  EXPECT_EQ(Ids("metadata=k%3Dv%26x%3D1"), "a");
  EXPECT_EQ(Ids("metadata=k%3Dv%26x%3D"), "b");
  EXPECT_EQ(Ids("metadata=k=v"), "ba");
  EXPECT_EQ(Ids("metadata=k%3D%2576"), "ba");
  EXPECT_EQ(Ids("metadata="), "cba");
}

TEST_F(ListTest, Refusals) {
  for (const char* text : {"page=0", "page=-1", "page=x", "page=", "page=1.5", "pageSize=0",
                           "pageSize=201", "page=99999999999999999999"}) {
    const auto query = ParseListQuery(text);
    ASSERT_FALSE(query) << text;
    EXPECT_EQ(query.error().status, 422) << text;
  }
  for (const char* text :
       {"metadata=k", "metadata=k%253Dv", "metadata=k%3Dv%26x", "metadata=k%3Dv%26%26x%3D1"}) {
    const auto query = ParseListQuery(text);
    ASSERT_FALSE(query) << text;
    EXPECT_EQ(query.error().status, 400) << text;
    EXPECT_NE(query.error().body.find("INVALID_METADATA_FORMAT"), std::string::npos);
  }
}

}  // namespace
}  // namespace atl::api
