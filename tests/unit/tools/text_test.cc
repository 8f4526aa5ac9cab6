#include "tools/atoll/words/text.h"

#include <gtest/gtest.h>

#include "tools/atoll/client/api.h"
#include "tools/atoll/client/command.h"

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
  EXPECT_EQ(Printable("漢字 עברית"), "漢字 עברית");
  // Direction marks, alone and around text that they would turn; a line end that is not byte 10.
  EXPECT_EQ(Printable("gpj.\u202eexe"), "gpj.?exe");
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
                           "\u202c", "\u202d", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    EXPECT_EQ(Printable(std::string("a") + mark + "b"), "a?b");
  }
  EXPECT_EQ(Printable("\x9b"
                      "31m\xff"),
            "?31m?");
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
