#include "runtime/sandbox/output/recordings.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

using nlohmann::json;

constexpr char kBox[] = "11111111-1111-4111-8111-111111111111";
constexpr char kOther[] = "22222222-2222-4222-8222-222222222222";
constexpr uint64_t kRoom = uint64_t{1} << 30;

class RecordingsTest : public testing::Test {
 protected:
  RecordingsTest() {
    char name[] = "/tmp/recordings_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    top = std::string(name) + "/recordings";
    Restart();
  }
  ~RecordingsTest() override {
    std::filesystem::remove_all(std::filesystem::path(top).parent_path());
  }

  void Restart() { recordings = std::make_unique<Recordings>(loop, top); }
  std::shared_ptr<Recording> Begin(const std::string& sandbox = kBox, uint64_t room = kRoom) {
    auto begun = recordings->Begin({.sandbox = sandbox, .actor = "k_1", .terminal = "t"}, room,
                                   ++unix_ms, 1'000'000);
    EXPECT_TRUE(begun) << begun.error().message();
    return begun ? *begun : nullptr;
  }
  // Nothing if it begins.
  std::optional<Code> WhyNot(uint64_t room) {
    const auto begun = recordings->Begin({.sandbox = kBox}, room, ++unix_ms, 0);
    return begun ? std::nullopt : std::optional(begun.error().code());
  }
  std::string PathOf(const std::string& id) const { return top + "/" + kBox + "/" + id + ".cast"; }
  std::string Text(const std::string& id) const {
    std::stringstream text;
    text << std::ifstream(PathOf(id)).rdbuf();
    return text.str();
  }
  std::vector<json> Lines(const std::string& id) const {
    std::vector<json> lines;
    std::istringstream text(Text(id));
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<RecordingInfo> List(const std::string& sandbox = kBox) const {
    return ListRecordings(top, sandbox).value();
  }

  std::string top;
  FakeClock clock;
  FakeLoop loop{clock};
  std::unique_ptr<Recordings> recordings;
  int64_t unix_ms = 1'700'000'000'000;
};

TEST_F(RecordingsTest, WritesAsciicast) {
  const auto recording = Begin();
  ASSERT_TRUE(recording->Output("gr\xc3", 1'500'000));  // a character in two pieces
  ASSERT_TRUE(recording->Output("\xbcn\r\n", 2'000'000));
  ASSERT_TRUE(recording->Resize(100, 30, 3'000'000));
  ASSERT_TRUE(recording->Input("ls", 4'000'000));
  const auto lines = Lines(recording->id());
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0]["version"], 2);
  EXPECT_EQ(lines[0]["timestamp"], unix_ms / 1000);
  EXPECT_EQ(lines[0]["actor"], "k_1");
  EXPECT_EQ(lines[1], json::array({0.5, "o", "gr"}));
  EXPECT_EQ(lines[2], json::array({1.0, "o", "\u00fcn\r\n"}));
  EXPECT_EQ(lines[3], json::array({2.0, "r", "100x30"}));
  EXPECT_EQ(lines[4], json::array({3.0, "i", "ls"}));
  struct stat info {};
  ASSERT_EQ(::stat(PathOf(recording->id()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

TEST_F(RecordingsTest, TheFileHoldsNoControlCharacters) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const auto recording = Begin();
  // DEL, CSI as UTF-8, and a character whose second byte looks like one.
  ASSERT_TRUE(
      recording->Output("\x7f\xc2\x9b"
                        "21t\xc3\x9b\xc2\xa9",
                        0));
  ASSERT_TRUE(recording->Output(all, 0));
  for (const char c : Text(recording->id()))
    EXPECT_TRUE(c == '\n' || (c >= 0x20 && c != 0x7f) || c < 0);
  EXPECT_EQ(Text(recording->id()).find("\xc2\x9b"), std::string::npos);
  EXPECT_EQ(Lines(recording->id())[1][2], "\x7f\u009b21t\u00db\u00a9");
}

TEST_F(RecordingsTest, ARecordingEndsWithAWholeEventAtItsSize) {
  const auto recording = Begin(kBox, 4 * Recordings::kMinBytes);
  Status written;
  const std::string text(20'000, 'x');
  for (int i = 0; i < 100 && written; ++i) written = recording->Output(text, 0);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), Code::kResourceExhausted);
  EXPECT_LE(Text(recording->id()).size(), Recordings::kMinBytes);
  EXPECT_GT(Text(recording->id()).size(), Recordings::kMinBytes / 2);
  EXPECT_EQ(Text(recording->id()).back(), '\n');
  EXPECT_GT(Lines(recording->id()).size(), 2U);
}

TEST_F(RecordingsTest, AFullDiskCutsNoEvent) {
  const auto recording = Begin();
  ASSERT_TRUE(recording->Output("whole", 0));
  const std::string before = Text(recording->id());
  // The limit stops a write in its middle, as a full disk does.
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &former), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{before.size() + 10, former.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status written = recording->Output("does not fit at all", 0);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(written);
  EXPECT_EQ(Text(recording->id()), before);
}

TEST_F(RecordingsTest, CountsWhatTheyTakeAndMayTake) {
  EXPECT_EQ(recordings->SizeOf(kBox), 0U);
  auto one = Begin(kBox, 4 << 20);
  EXPECT_EQ(recordings->SizeOf(kBox), 4096U);
  EXPECT_EQ(recordings->MostOf(kBox), 1U << 20);
  ASSERT_TRUE(one->Output(std::string(5'000, 'x'), 0));
  EXPECT_EQ(recordings->SizeOf(kBox), 8192U);
  one.reset();
  EXPECT_EQ(recordings->SizeOf(kBox), 8192U);
  EXPECT_EQ(recordings->MostOf(kBox), 8192U);
  auto nothing = Begin();
  nothing->Discard();
  nothing.reset();
  EXPECT_EQ(recordings->MostOf(kBox), 8192U);
  EXPECT_EQ(List().size(), 1U);
  // One that outlives the sandbox's.
  one = Begin();
  recordings->Remove(kBox);
  one.reset();
  EXPECT_EQ(recordings->MostOf(kBox), 0U);
  EXPECT_FALSE(std::filesystem::exists(top + "/" + kBox));
}

TEST_F(RecordingsTest, BeginsNoneWithoutRoom) {
  EXPECT_EQ(WhyNot(4 * Recordings::kMinBytes), std::nullopt);
  EXPECT_EQ(WhyNot(4 * Recordings::kMinBytes - 4), Code::kResourceExhausted);
  EXPECT_EQ(WhyNot(0), Code::kResourceExhausted);
}

TEST_F(RecordingsTest, ASandboxHasALimitedNumber) {
  for (size_t i = 1; i < Recordings::kMostOfSandbox; ++i) Begin();
  const auto last = Begin();
  EXPECT_EQ(WhyNot(kRoom), Code::kResourceExhausted);
  EXPECT_EQ(List().size(), Recordings::kMostOfSandbox);
  EXPECT_NE(Begin(kOther), nullptr);
  Restart();
  recordings->Recover([](const std::string&) { return Recordings::Holder::kSandbox; });
  EXPECT_EQ(WhyNot(kRoom), Code::kResourceExhausted) << "the next daemon counts, too";
}

TEST_F(RecordingsTest, RecoversWhatAnEarlierDaemonHasRecorded) {
  constexpr char kGone[] = "33333333-3333-4333-8333-333333333333";
  for (const char* sandbox : {kBox, kOther, kGone}) Begin(sandbox);
  const auto holder_of = [&](const std::string& sandbox) {
    return sandbox == kBox    ? Recordings::Holder::kSandbox
           : sandbox == kGone ? Recordings::Holder::kEntry
                              : Recordings::Holder::kNobody;
  };
  Restart();
  recordings->Recover(holder_of);
  EXPECT_EQ(recordings->SizeOf(kBox), 4096U);
  EXPECT_EQ(List(kGone).size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(top + "/" + kOther));
  recordings->Remove(kGone);
  EXPECT_FALSE(std::filesystem::exists(top + "/" + kGone));
}

TEST_F(RecordingsTest, ListsAndOpensNothingButRecordings) {
  const auto first = Begin(), second = Begin();
  std::ofstream(top + "/" + kBox + "/other.cast") << "x";
  const std::string link = "1700000000000-00000000";
  std::filesystem::create_symlink("/etc/passwd", PathOf(link));
  const auto found = List();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].id, first->id());
  EXPECT_EQ(found[1].id, second->id());
  EXPECT_EQ(json::parse(found[0].head)["terminal"], "t");
  EXPECT_TRUE(OpenRecording(top, kBox, first->id()));
  for (const std::string& id : {link, std::string("other"), std::string("../x"), std::string(),
                                first->id() + ".cast", "../" + std::string(kBox) + "/x"}) {
    EXPECT_FALSE(OpenRecording(top, kBox, id)) << id;
  }
  EXPECT_FALSE(OpenRecording(top, "..", first->id()));
  EXPECT_TRUE(List(kOther).empty());
}

}  // namespace
}  // namespace atl::sandbox
