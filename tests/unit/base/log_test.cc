#include "runtime/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "runtime/base/log_format.h"
#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl {
namespace {

// Returns what `write` logs to standard error, without the time.
std::string Written(const std::function<void()>& write) {
  const UniqueFd file(memfd_create("log", MFD_CLOEXEC));
  const UniqueFd stderr_fd(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  EXPECT_EQ(dup2(file.get(), STDERR_FILENO), STDERR_FILENO);
  write();
  EXPECT_EQ(dup2(stderr_fd.get(), STDERR_FILENO), STDERR_FILENO);
  EXPECT_EQ(lseek(file.get(), 0, SEEK_SET), 0);
  const std::string text = sys::ReadAll(file.get(), 1 << 20).value();
  const size_t end_of_time = text.find("Z ");
  return text.substr(end_of_time == std::string::npos ? 0 : end_of_time + 2);
}

std::string Line(std::string_view value) {
  return Written([value] { LogLine(LogLevel::kInfo, "said").Add("what", value); });
}

TEST(Log, AFieldIsAWordOrIsQuoted) {
  EXPECT_EQ(Line("plain-word_1"), "info atoll: said what=plain-word_1\n");
  EXPECT_EQ(Line(""), "info atoll: said what=\"\"\n");
  EXPECT_EQ(Line("two words"), "info atoll: said what=\"two words\"\n");
  EXPECT_EQ(Line("a=b"), "info atoll: said what=\"a=b\"\n");
}

TEST(Log, NothingThatIsLoggedMakesALineOrAFieldOfItsOwn) {
  EXPECT_EQ(Line("x\nerror atolld: forged"),
            "info atoll: said what=\"x\\nerror atolld: forged\"\n");
  EXPECT_EQ(Line("x\" sandbox=forged"), "info atoll: said what=\"x\\\" sandbox=forged\"\n");
  EXPECT_EQ(Line("x\\"), "info atoll: said what=\"x\\\\\"\n");
  EXPECT_EQ(Line("\r\x1b[2J\x7f\xe2\x80\xa8"),
            "info atoll: said what=\"\\x0d\\x1b[2J\\x7f\\xe2\\x80\\xa8\"\n");
  const std::string error =
      Written([] { LogLine(LogLevel::kInfo, "said").Add(Error(Code::kInternal, "a\nb")); });
  EXPECT_NE(error.find("error=\"a\\nb\""), std::string::npos) << error;
}

TEST(Log, ALineHasAnEndHoweverLongItIs) {
  const std::string line = Line(std::string(1 << 20, '\n'));
  EXPECT_LT(line.size(), size_t{64} << 10);
  EXPECT_TRUE(line.ends_with("\"\n"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  // The end is right whatever precedes it.
  for (size_t room = 0; room < 5; ++room) {
    const std::string quotes = Line(std::string(room, 'x') + std::string(1 << 20, '"'));
    EXPECT_TRUE(quotes.ends_with("\\\"\"\n")) << quotes.substr(quotes.size() - 8);
  }
  const std::string two = Written(
      [] { LogLine(LogLevel::kInfo, "said").Add("a", std::string(1 << 20, ' ')).Add("b", "c d"); });
  EXPECT_EQ(two.size(), Line(std::string(1 << 20, ' ')).size());
}

class JsonLog : public testing::Test {
 protected:
  JsonLog() { SetLogFormat(LogFormat::kJson); }
  ~JsonLog() override { SetLogFormat(LogFormat::kText); }
};

TEST_F(JsonLog, EachLineIsAnObject) {
  const std::string text = Written([] {
    LogLine(LogLevel::kWarning, "two \"words\"")
        .Add("key", "a\n\x01\xe2\x80\xae\xf0\x9f\x98\x80\xff\\")
        .Add("number", -7)
        .Add("large", UINT64_MAX)
        .Add(Error(Code::kInternal, "bad"));
  });
  EXPECT_EQ(text.substr(text.find(",\"level\"")),
            ",\"level\":\"warning\",\"process\":\"atoll\",\"msg\":\"two \\\"words\\\"\","
            "\"key\":\"a\\u000a\\u0001\\u202e\\ud83d\\ude00\\ufffd\\\\\",\"number\":-7,"
            "\"large\":\"18446744073709551615\",\"error\":\"bad\",\"code\":\"internal\"}\n");
  EXPECT_TRUE(text.starts_with("{\"time\":\"20")) << text;
}

TEST_F(JsonLog, IsAnObjectHoweverLongItIs) {
  for (size_t room = 0; room < 8; ++room) {
    for (const char* filler : {"\"", "x", "\x01", "\xf0\x9f\x98\x80"}) {
      std::string value(room, 'x');
      for (int i = 0; i < 5000; ++i) value.append(filler);
      const std::string text = Written([&value] {
        LogLine(LogLevel::kInfo, "said").Add("a", value).Add("b", value).Add("c", 7);
      });
      // The last field is either complete or left out.
      ASSERT_TRUE(text.ends_with("\"}\n") || text.ends_with("\",\"c\":7}\n"))
          << text.substr(text.size() - 20);
      ASSERT_LT(text.size(), 4097U);
      // Escapes are never cut.
      ASSERT_EQ(text.find("\\\"}\n") != std::string::npos && filler[0] != '"', false);
    }
  }
}

TEST(Log, TheJournalGetsPrioritiesInPlaceOfStamps) {
  const UniqueFd file(memfd_create("log", MFD_CLOEXEC));
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  const std::string stream = std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
  ASSERT_EQ(setenv("JOURNAL_STREAM", stream.c_str(), 1), 0);
  EXPECT_TRUE(IsJournal(file.get()));
  EXPECT_FALSE(IsJournal(STDERR_FILENO));
  const UniqueFd stderr_fd(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_EQ(dup2(file.get(), STDERR_FILENO), STDERR_FILENO);
  InitLog("atoll", LogLevel::kDebug);
  LogLine(LogLevel::kDebug, "d").Add("a", 1);
  LogLine(LogLevel::kInfo, "i");
  LogLine(LogLevel::kWarning, "w");
  LogLine(LogLevel::kError, "e");
  SetLogFormat(LogFormat::kJson);
  LogLine(LogLevel::kError, "j");
  SetLogFormat(LogFormat::kText);
  ASSERT_EQ(dup2(stderr_fd.get(), STDERR_FILENO), STDERR_FILENO);
  ASSERT_EQ(unsetenv("JOURNAL_STREAM"), 0);
  InitLog("atoll", LogLevel::kInfo);
  ASSERT_EQ(lseek(file.get(), 0, SEEK_SET), 0);
  const std::string text = sys::ReadAll(file.get(), 1 << 20).value();
  EXPECT_TRUE(text.starts_with("<7>d a=1\n<6>i\n<4>w\n<3>e\n<3>{\"time\":")) << text;
}

TEST(Log, AFileOfNobodyElseIsBounded) {
  const UniqueFd file(memfd_create("log", MFD_CLOEXEC));
  const UniqueFd stderr_fd(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_EQ(dup2(file.get(), STDERR_FILENO), STDERR_FILENO);
  const std::string text(1000, 'x');
  for (int i = 0; i < 30'000; ++i) LogLine(LogLevel::kInfo, text).Add("number", i);
  ASSERT_EQ(dup2(stderr_fd.get(), STDERR_FILENO), STDERR_FILENO);
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_LE(info.st_blocks * 512, 10 << 20);
  // The newest line is there.
  std::string end(100, ' ');
  ASSERT_EQ(pread(file.get(), end.data(), end.size(), info.st_size - 100), 100);
  EXPECT_NE(end.find("number=29999"), std::string::npos) << end;
}

}  // namespace
}  // namespace atl
