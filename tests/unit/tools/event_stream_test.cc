#include "tools/atoll/client/event_stream.h"

#include <gtest/gtest.h>

namespace atl::cli {
namespace {

struct Heard {
  std::string out;
  std::string err;
  EventStream stream{[this](std::string_view text, bool is_error) {
    (is_error ? err : out).append(text);
    return true;
  }};
};

TEST(EventStream, PassesOutputOnAndKnowsTheEnd) {
  Heard heard;
  EXPECT_TRUE(heard.stream.Feed("{\"type\":\"init\",\"text\":\"c0ffee\",\"timestamp\":1}\n\n"));
  EXPECT_EQ(heard.stream.command_id(), "c0ffee");
  EXPECT_TRUE(heard.stream.Feed("{\"type\":\"ping\",\"text\":\"pong\"}\n\n{\"type\":\"stdo"));
  EXPECT_TRUE(
      heard.stream.Feed("ut\",\"text\":\"a\"}\n\n{\"type\":\"stdout\",\"text\":\"\\n\"}\n\n"));
  EXPECT_TRUE(heard.stream.Feed("{\"type\":\"stderr\",\"text\":\"e\"}\n\n"));
  EXPECT_FALSE(heard.stream.exit());
  EXPECT_FALSE(heard.stream.Feed("{\"type\":\"execution_complete\",\"execution_time\":3}\n\n"));
  EXPECT_EQ(heard.out, "a\n\n");
  EXPECT_EQ(heard.err, "e\n");
  ASSERT_TRUE(heard.stream.exit());
  EXPECT_EQ(heard.stream.exit()->code, 0);
}

TEST(EventStream, PassesBytesOnAsTheyWere) {
  Heard heard;
  EXPECT_TRUE(
      heard.stream.Feed("{\"type\":\"stdout\",\"base64\":\"AP8KDQ==\"}\n\n"
                        "{\"type\":\"stderr\",\"base64\":\"ZQ==\"}\n\n"));
  EXPECT_EQ(heard.out, std::string("\0\xFF\n\r", 4));
  EXPECT_EQ(heard.err, "e");
  // The same events as another execd may write them.
  EXPECT_TRUE(
      heard.stream.Feed("{\"timestamp\": 1, \"type\": \"stderr\", \"base64\": \"Zg==\"}\n\n"
                        "{\"type\":\"stdout\",\"base64\":\"Zg=\",\"text\":\"line\"}\n\n"));
  EXPECT_EQ(heard.err, "ef");
  EXPECT_EQ(heard.out, std::string("\0\xFF\n\rline\n", 9));
}

TEST(EventStream, TakesTheExitCodeFromTheError) {
  for (const auto& [value, code] : {std::pair{"3", 3}, {"-1", 255}, {"255", 255}}) {
    Heard heard;
    EXPECT_FALSE(heard.stream.Feed(std::string("{\"type\":\"error\",\"error\":{\"ename\":"
                                               "\"CommandExecError\",\"evalue\":\"") +
                                   value + "\"}}\n\n"));
    ASSERT_TRUE(heard.stream.exit());
    EXPECT_EQ(heard.stream.exit()->code, code);
    EXPECT_EQ(heard.stream.failure(), "");
  }
}

TEST(EventStream, TakesTheReasonFromTheTraceback) {
  Heard heard;
  EXPECT_FALSE(
      heard.stream.Feed("{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":"
                        "\"-1\",\"traceback\":[\"signal: killed (out of memory)\"]}}\n\n"));
  ASSERT_TRUE(heard.stream.exit());
  EXPECT_EQ(heard.stream.exit()->code, 137);
  EXPECT_EQ(heard.stream.exit()->reason, "killed by SIGKILL (out of memory)");
}

TEST(EventStream, TellsAFailureFromAnExitCode) {
  Heard heard;
  EXPECT_FALSE(
      heard.stream.Feed("{\"type\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"exec sh: "
                        "no\\u001b such\"}}\n\n"));
  EXPECT_FALSE(heard.stream.exit());
  EXPECT_EQ(heard.stream.failure(), "exec sh: no? such");

  Heard late;  // appended to the stream without a line end
  EXPECT_FALSE(late.stream.Feed("{\"code\":\"RUNTIME_ERROR\",\"message\":\"gone\"}"));
  EXPECT_EQ(late.stream.failure(), "gone");
}

TEST(EventStream, SurvivesWhateverASandboxSends) {
  Heard heard;
  EXPECT_TRUE(
      heard.stream.Feed("nonsense\n[1]\n\"x\"\n{\"type\":7}\n{\"type\":\"stdout\"}\n\xff\n"));
  EXPECT_FALSE(heard.stream.Feed("{\"type\":\"error\",\"error\":[]}\n"));

  Heard endless;
  bool wanted = true;
  for (int i = 0; i < 20 && wanted; ++i) wanted = endless.stream.Feed(std::string(1 << 20, 'x'));
  EXPECT_FALSE(wanted);
  EXPECT_NE(endless.stream.failure(), "");
}

TEST(EventStream, StopsWhenTheOutputCannotBeWritten) {
  EventStream stream([](std::string_view, bool) { return false; });
  EXPECT_FALSE(stream.Feed("{\"type\":\"stdout\",\"text\":\"a\"}\n\n"));
  EXPECT_FALSE(stream.exit());
}

}  // namespace
}  // namespace atl::cli
