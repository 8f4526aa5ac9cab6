#include "runtime/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl {
namespace {

// What `write` makes of standard error, without the time.
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
  // Whatever stands before the end.
  for (size_t room = 0; room < 5; ++room) {
    const std::string quotes = Line(std::string(room, 'x') + std::string(1 << 20, '"'));
    EXPECT_TRUE(quotes.ends_with("\\\"\"\n")) << quotes.substr(quotes.size() - 8);
  }
  const std::string two = Written(
      [] { LogLine(LogLevel::kInfo, "said").Add("a", std::string(1 << 20, ' ')).Add("b", "c d"); });
  EXPECT_EQ(two.size(), line.size());
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
  // The newest is there.
  std::string end(100, ' ');
  ASSERT_EQ(pread(file.get(), end.data(), end.size(), info.st_size - 100), 100);
  EXPECT_NE(end.find("number=29999"), std::string::npos) << end;
}

}  // namespace
}  // namespace atl
