#include "runtime/sandbox/output/log_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

using Kind = wire::OutputFrame::Kind;
constexpr int64_t kStart = 1'700'000'000'000'000;

class LogReaderTest : public testing::Test {
 protected:
  LogReaderTest() {
    char name[] = "/tmp/log_reader_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    store = std::move(*LogStore::Open(directory + "/logs", 1 << 20));
  }
  ~LogReaderTest() override { std::filesystem::remove_all(directory); }

  void Put(const std::string& bytes, Kind kind = Kind::kStdout) {
    wire::OutputFrame frame;
    frame.kind = kind;
    frame.offset = offset;
    frame.time_us = now;
    frame.bytes = bytes;
    offset = frame.end();
    now += 1'000'000;
    ASSERT_TRUE(store->Append(kId, frame.Encode()));
  }
  LogStore::Files Files() const { return store->OpenFiles(kId); }
  // Removes the times.
  static std::string Strip(const std::string& text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      out += text.substr(at + 28, end + 1 - at - 28);
      at = end + 1;
    }
    return out;
  }
  std::string Read(const LogQuery& query) const { return Strip(LogReader(query).Read(Files())); }

  std::string directory;
  std::unique_ptr<LogStore> store;
  uint64_t offset = 0;
  int64_t now = kStart;
};

TEST_F(LogReaderTest, PutsLinesTogether) {
  Put("on");
  Put("err1\ner", Kind::kStderr);
  Put("e\ntwo\n\nrest");
  Put("not output", Kind::kNote);
  Put("r2", Kind::kStderr);
  const std::string text = LogReader({}).Read(Files());
  EXPECT_EQ(text,
            "2023-11-14T22:13:21.000000Z err1\n"
            "2023-11-14T22:13:20.000000Z one\n"
            "2023-11-14T22:13:22.000000Z two\n"
            "2023-11-14T22:13:22.000000Z \n"
            "2023-11-14T22:13:22.000000Z rest\n"
            "2023-11-14T22:13:21.000000Z err2\n");
  EXPECT_EQ(LogReader({}).Read({}), "");
}

TEST_F(LogReaderTest, TailAndSince) {
  for (int i = 0; i < 10; ++i) Put(std::to_string(i) + "\n");
  Put("end");
  EXPECT_EQ(Read({.tail = 3}), "8\n9\nend\n");
  EXPECT_EQ(Read({.since_us = kStart + 8'500'000}), "9\nend\n");
  EXPECT_EQ(Read({.tail = 2, .since_us = kStart + 9'500'000}), "end\n");
}

TEST_F(LogReaderTest, IsBounded) {
  for (int i = 0; i < 50; ++i) Put(std::string(2000, static_cast<char>('a' + i % 26)) + "\n");
  LogReader reader({.max_bytes = 10'000});
  EXPECT_LE(reader.Read(Files()).size(), 10'000U);
  EXPECT_TRUE(reader.truncated());
  LogReader tail({.tail = 2});
  (void)tail.Read(Files());
  EXPECT_FALSE(tail.truncated());
}

TEST_F(LogReaderTest, CutsLongLines) {
  for (int i = 0; i < 5; ++i) Put(std::string(10'000, 'x'));
  Put("\nend\n");
  const std::string text = Read({});
  size_t x = 0;
  for (const char c : text) x += c == 'x';
  EXPECT_EQ(x, 50'000U);
  EXPECT_EQ(text.find('\n'), OutputLines::kMaxLine);
  EXPECT_EQ(text.substr(text.size() - 5), "\nend\n");
}

TEST_F(LogReaderTest, BadBytesBecomeText) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
       "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
      {"\xFF", "\xEF\xBF\xBD"},
      {"a\xC3", "a\xEF\xBF\xBD"},                                // truncated
      {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // overlong
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // a surrogate
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (const auto& [given, wanted] : cases) {
    std::string out;
    AppendUtf8(given, &out);
    EXPECT_EQ(out, wanted);
  }
  // A character that is split over two frames is one character.
  Put("\xE2\x82");
  Put("\xAC\n");
  EXPECT_EQ(Read({}), "\xE2\x82\xAC\n");
}

TEST_F(LogReaderTest, SaysWhatIsMissing) {
  offset = 1000;
  Put("late\n");
  offset += 7;
  Put("later\n");
  LogReader reader({});
  EXPECT_EQ(Strip(reader.Read(Files())),
            "[1000 bytes of output are missing here]\nlate\n"
            "[7 bytes of output are missing here]\nlater\n");
  EXPECT_EQ(reader.missing(), 1007U);
}

TEST_F(LogReaderTest, FollowsThroughRotations) {
  LogReader reader({.follow = true});
  EXPECT_EQ(reader.Read(Files()), "");
  std::string all;
  std::string read;
  for (int i = 0; i < 400; ++i) {
    const std::string line = std::to_string(i) + std::string(5000, 'x') + "\n";
    Put(line.substr(0, 10));
    Put(line.substr(10));
    all += line;
    do {
      read += Strip(reader.Read(Files()));
    } while (reader.more());
    ASSERT_EQ(read, all) << i;
  }
  Put("unfinished");
  EXPECT_EQ(reader.Read(Files()), "");
  EXPECT_EQ(Strip(reader.Finish()), "unfinished\n");
  EXPECT_EQ(reader.missing(), 0U);
}

TEST_F(LogReaderTest, FollowingGivesAPartAtATime) {
  for (int i = 0; i < 20; ++i) Put(std::string(wire::kMaxOutputBytes - 1, 'x') + "\n");
  LogReader reader({.follow = true});
  int parts = 0;
  size_t bytes = 0;
  do {
    const std::string text = reader.Read(Files());
    EXPECT_LE(text.size(), 128U << 10);
    bytes += Strip(text).size();
    ASSERT_LT(++parts, 100);
  } while (reader.more());
  EXPECT_GT(parts, 5);
  EXPECT_EQ(bytes, 20 * wire::kMaxOutputBytes);
}

}  // namespace
}  // namespace atl::sandbox
