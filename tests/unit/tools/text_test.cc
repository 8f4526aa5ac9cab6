#include "tools/atoll/text.h"

#include <gtest/gtest.h>

#include "tools/atoll/api.h"
#include "tools/atoll/command.h"

namespace atl::cli {
namespace {

TEST(ShellQuote, LeavesPlainWordsAndProtectsTheRest) {
  EXPECT_EQ(ShellQuote("a-b/c.d_1"), "a-b/c.d_1");
  EXPECT_EQ(ShellQuote(""), "''");
  EXPECT_EQ(ShellQuote("a b"), "'a b'");
  EXPECT_EQ(ShellQuote("$HOME;`id`"), "'$HOME;`id`'");
  EXPECT_EQ(ShellQuote("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuote("a\nb"), "'a\nb'");
  EXPECT_EQ(ShellQuote("~"), "'~'");
  EXPECT_EQ(ShellQuote("*"), "'*'");
}

TEST(Printable, LeavesNothingThatDrivesATerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\r\n\x7f"), "a?[2Jb???");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "?31m");
  EXPECT_EQ(Printable("grün"), "grün");
}

TEST(Table, AlignsColumns) {
  Table table({"ID", "NAME"});
  table.AddRow({"1", "a"});
  table.AddRow({"1234", "b\x1b"});
  EXPECT_EQ(table.Text(), "ID    NAME\n1     a\n1234  b?\n");
}

TEST(HumanSize, PicksTheUnit) {
  EXPECT_EQ(HumanSize(0), "0 B");
  EXPECT_EQ(HumanSize(1023), "1023 B");
  EXPECT_EQ(HumanSize(1536), "1.5 KiB");
  EXPECT_EQ(HumanSize(uint64_t{3} << 40), "3.0 TiB");
}

TEST(PercentEncode, EscapesWhatHasAMeaning) {
  EXPECT_EQ(PercentEncode("python:3.11/x y"), "python%3A3.11%2Fx%20y");
  EXPECT_EQ(PercentEncode("\xc3\xa4"), "%C3%A4");
}

TEST(ExpandEnvironment, TakesValuesOrOurOwn) {
  setenv("ATOLL_TEST_SET", "ours", 1);
  const auto env = ExpandEnvironment({"A=1=2", "ATOLL_TEST_SET", "ATOLL_TEST_UNSET", "B="}, {});
  ASSERT_TRUE(env.has_value());
  EXPECT_EQ(*env, (std::vector<std::string>{"A=1=2", "ATOLL_TEST_SET=ours", "B="}));
  EXPECT_FALSE(ExpandEnvironment({"=x"}, {}).has_value());
  EXPECT_FALSE(ExpandEnvironment({""}, {}).has_value());
}

}  // namespace
}  // namespace atl::cli
