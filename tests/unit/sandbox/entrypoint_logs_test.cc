#include "runtime/sandbox/output/entrypoint_logs.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "tests/unit/sandbox/fakes.h"

namespace atl::sandbox {
namespace {

constexpr char kOther[] = "11111111-4f89-41d3-9a0c-0305e82c3301";

class EntrypointLogsTest : public testing::Test {
 protected:
  EntrypointLogsTest() {
    char name[] = "/tmp/logs_XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    directory = name;
    config.directory = directory + "/logs";
    Boot({kId, kOther});
  }
  ~EntrypointLogsTest() override {
    logs.reset();
    std::filesystem::remove_all(directory);
  }
  // Starts a daemon with these sandboxes.
  void Boot(const std::unordered_set<std::string>& sandboxes) {
    logs = std::make_unique<EntrypointLogs>(loop, clock, config);
    EXPECT_TRUE(logs->Start(sandboxes));
    loop.Run();
  }
  // Returns execd's end of the output socket of a sandbox that is followed.
  UniqueFd Follow(const std::string& id) {
    auto pair = sys::UnixPair(SOCK_STREAM);
    logs->Follow(id, std::move(pair->a), {});
    loop.Run();
    return std::move(pair->b);
  }
  std::string Frame(const std::string& bytes,
                    wire::OutputFrame::Kind kind = wire::OutputFrame::Kind::kStdout) {
    wire::OutputFrame frame;
    frame.kind = kind;
    frame.offset = offset;
    frame.time_us = clock.unix_ms * 1000;
    frame.bytes = bytes;
    offset = frame.end();
    return frame.Encode();
  }
  static bool Send(const UniqueFd& socket, const std::string& bytes) {
    return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size());
  }
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      loop.Poll();
      loop.Pass(5'000);
    }
  }
  std::string Text(const std::string& id) {
    std::string text = "(not read)";
    logs->Read(id, std::make_shared<LogReader>(LogQuery()),
               [&](std::string read) { text = std::move(read); });
    loop.Run();
    return text;
  }
  bool Has(const std::string& id, const std::string& text) {
    return Text(id).find(text) != std::string::npos;
  }
  size_t Directories() const {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(config.directory)) {
      ++n;
    }
    return n;
  }

  std::string directory;
  FakeClock clock;
  FakeLoop loop{clock};
  EntrypointLogs::Config config;
  std::unique_ptr<EntrypointLogs> logs;
  uint64_t offset = 0;
};

TEST_F(EntrypointLogsTest, WritesWhatComes) {
  const UniqueFd execd = Follow(kId);
  EXPECT_EQ(Directories(), 0U);  // a sandbox without output has no directory
  ASSERT_TRUE(Send(execd, Frame("hello\n")));
  Settle();
  EXPECT_TRUE(Has(kId, " hello\n"));
  EXPECT_EQ(logs->stats().bytes, 6U);
}

TEST_F(EntrypointLogsTest, NotesArePassedOnNowAndThen) {
  std::vector<std::string> notes;
  logs->OnNote([&](const std::string& id, const std::string& text) {
    EXPECT_EQ(id, kId);
    notes.push_back(text);
  });
  const UniqueFd execd = Follow(kId);
  const auto note = [&](const std::string& text) {
    EXPECT_TRUE(Send(execd, Frame(text, wire::OutputFrame::Kind::kNote)));
    Settle();
  };
  ASSERT_TRUE(Send(execd, Frame("out\n")));
  note("first");
  note("first");
  note("another");
  note("a third, that there cannot be");
  ASSERT_TRUE(Send(execd, Frame("put\n")));
  loop.Pass(60'000'000);
  note(std::string(1000, 'x'));
  note("first");
  EXPECT_EQ(notes, (std::vector<std::string>{"first", "another", std::string(200, 'x'), "first"}));
  // The notes do not disturb the output.
  EXPECT_TRUE(Has(kId, " out\n"));
  EXPECT_TRUE(Has(kId, " put\n"));
  EXPECT_FALSE(Has(kId, "first"));
  EXPECT_FALSE(Has(kId, "missing"));
}

TEST_F(EntrypointLogsTest, TakesWhatCameBehindTheReport) {
  auto pair = sys::UnixPair(SOCK_STREAM);
  const std::string frame = Frame("early\n");
  logs->Follow(kId, std::move(pair->a), frame.substr(0, 9));
  ASSERT_TRUE(Send(pair->b, frame.substr(9)));
  Settle();
  EXPECT_TRUE(Has(kId, " early\n"));
}

TEST_F(EntrypointLogsTest, WhatIsMalformedEndsTheReading) {
  UniqueFd execd = Follow(kId);
  ASSERT_TRUE(Send(execd, Frame("good\n")));
  ASSERT_TRUE(Send(execd, std::string("\xFF\xFF\xFF\xFF", 4) + "bad"));
  Settle();
  EXPECT_EQ(logs->following(), 0U);
  EXPECT_FALSE(Send(execd, "x"));
  EXPECT_TRUE(Has(kId, " good\n"));
}

TEST_F(EntrypointLogsTest, AnOffsetThatDoesNotFollowEndsTheReading) {
  for (const int64_t step : {-1, 1}) {
    const std::string id = step < 0 ? kId : kOther;
    offset = 0;
    UniqueFd execd = Follow(id);
    ASSERT_TRUE(Send(execd, Frame("good\n")));
    offset += static_cast<uint64_t>(step);
    ASSERT_TRUE(Send(execd, Frame("forged\n")));
    Settle();
    EXPECT_EQ(logs->following(), 0U);
    EXPECT_TRUE(Has(id, " good\n"));
    EXPECT_FALSE(Has(id, "forged"));
  }
}

TEST_F(EntrypointLogsTest, TimesThatCannotBeAreCorrected) {
  const UniqueFd execd = Follow(kId);
  wire::OutputFrame frame;
  frame.bytes = "x\n";
  for (const int64_t time : {INT64_MAX, INT64_MIN, int64_t{0}}) {
    frame.time_us = time;
    ASSERT_TRUE(Send(execd, frame.Encode()));
    frame.offset = frame.end();
  }
  Settle();
  const std::string text = Text(kId);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    EXPECT_EQ(text.substr(at, 16), "2023-11-14T22:13") << text;
  }
}

TEST_F(EntrypointLogsTest, AFloodHasItsShareAndNoMore) {
  UniqueFd floods[3];
  uint64_t offsets[3] = {};
  const std::string ids[3] = {kId, kOther, "22222222-4f89-41d3-9a0c-0305e82c3301"};
  for (int i = 0; i < 3; ++i) floods[i] = Follow(ids[i]);
  const auto fill = [&] {
    for (int i = 0; i < 3; ++i) {
      for (;;) {
        std::swap(offset, offsets[i]);
        const uint64_t before = offset;
        const bool sent = Send(floods[i], Frame(std::string(4000, 'x')));
        if (!sent) offset = before;
        std::swap(offset, offsets[i]);
        if (!sent) break;
      }
    }
  };
  const auto written = [&](int i) {
    LogStore::Files files = logs->OpenFiles(ids[i]);
    LogReader reader({.max_bytes = 1 << 30});
    return reader.Read(files).size();
  };
  fill();
  constexpr int kTicks = 10;
  for (int tick = 0; tick < kTicks; ++tick) {
    // The number of turns of the loop within a tick does not matter.
    for (int round = 0; round < 10; ++round) loop.Poll();
    loop.Pass(5'000);
    fill();
  }
  EXPECT_LE(logs->stats().bytes, (kTicks + 2) * (96U << 10));
  EXPECT_GT(logs->stats().bytes, kTicks * (16U << 10));
  // No sandbox has been left out: each wrote about a third.
  for (int i = 0; i < 3; ++i) EXPECT_GT(written(i), logs->stats().bytes / 6) << i;
}

TEST_F(EntrypointLogsTest, GoesWithItsSandbox) {
  const UniqueFd execd = Follow(kId);
  ASSERT_TRUE(Send(execd, Frame("x\n")));
  Settle();
  EXPECT_EQ(Directories(), 1U);
  logs->Remove(kId);
  loop.Run();
  EXPECT_EQ(Directories(), 0U);
  EXPECT_FALSE(Send(execd, "x"));  // nobody reads any more
  EXPECT_EQ(logs->following(), 0U);
}

TEST_F(EntrypointLogsTest, StaysWithItsLastWords) {
  UniqueFd execd = Follow(kId);
  ASSERT_TRUE(Send(execd, Frame("first words\n")));
  Settle();
  bool ended = false;
  EXPECT_NE(logs->Watch(kId, true, [&](bool end) { ended = end; }), 0U);
  // Some output is in the socket yet when the sandbox goes.
  ASSERT_TRUE(Send(execd, Frame("last words\n")));
  execd.reset();
  std::optional<uint64_t> size;
  EXPECT_TRUE(logs->Leave(kId, [&](uint64_t bytes) { size = bytes; }));
  EXPECT_FALSE(size);
  Settle();
  EXPECT_TRUE(ended);
  EXPECT_EQ(size, std::filesystem::file_size(config.directory + "/" + kId + "/log"));
  EXPECT_TRUE(Has(kId, "last words"));
  Boot({kId});
  EXPECT_TRUE(Has(kId, "last words"));
  // Its size can be asked for again.
  size.reset();
  logs->Measure(kId, [&](uint64_t bytes) { size = bytes; });
  loop.Run();
  EXPECT_GT(size, 0U);
  logs->Remove(kId);
  loop.Run();
  EXPECT_EQ(Directories(), 0U);
}

TEST_F(EntrypointLogsTest, NothingStaysOfASandboxThatWroteNothing) {
  EXPECT_FALSE(logs->Leave(kId, [](uint64_t) { FAIL(); }));
  // One that nobody has asked the output of yet, and one that is silent.
  EXPECT_NE(logs->Watch(kId, true, [](bool) {}), 0U);
  std::vector<uint64_t> sizes;
  EXPECT_TRUE(logs->Leave(kId, [&](uint64_t bytes) { sizes.push_back(bytes); }));
  const UniqueFd execd = Follow(kOther);
  EXPECT_TRUE(logs->Leave(kOther, [&](uint64_t bytes) { sizes.push_back(bytes); }));
  loop.Run();
  EXPECT_EQ(sizes.size(), 1U);
  // A process that outlives its sandbox does not hold up the end of the log.
  loop.Pass(5'000'000);
  EXPECT_EQ(sizes, (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(logs->following(), 0U);
}

TEST_F(EntrypointLogsTest, TellsWatchers) {
  int grown = 0;
  bool ended = false;
  const auto watcher = [&](bool end) { end ? void(ended = true) : void(++grown); };
  EXPECT_EQ(logs->Watch(kId, false, watcher), 0U);
  // The watcher comes before the sandbox's execd has reported.
  EXPECT_NE(logs->Watch(kId, true, watcher), 0U);
  UniqueFd execd = Follow(kId);
  ASSERT_TRUE(Send(execd, Frame("x\n")));
  Settle();
  EXPECT_EQ(grown, 1);
  ASSERT_TRUE(Send(execd, Frame("last\n")));
  execd.reset();
  Settle();
  EXPECT_TRUE(ended);
  EXPECT_EQ(grown, 2);
  EXPECT_TRUE(Has(kId, "last"));
}

TEST_F(EntrypointLogsTest, TellsWatchersOfTheAbandoned) {
  bool ended = false;
  EXPECT_NE(logs->Watch(kId, true, [&](bool end) { ended = end; }), 0U);
  logs->Abandon(kId);
  EXPECT_TRUE(ended);
  // Sandboxes that are followed are not reported as ended.
  ended = false;
  const UniqueFd execd = Follow(kOther);
  EXPECT_NE(logs->Watch(kOther, true, [&](bool end) { ended = end; }), 0U);
  logs->Abandon(kOther);
  EXPECT_FALSE(ended);
}

TEST_F(EntrypointLogsTest, AsksForTheRestAfterARestart) {
  {
    const UniqueFd execd = Follow(kId);
    ASSERT_TRUE(Send(execd, Frame("before\n")));
    Settle();
  }
  Boot({kId});
  const std::string path = directory + "/execd.sock";
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  logs->Adopt(kId, path, "the-token");
  loop.Run();
  UniqueFd execd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(execd);
  char request[1024];
  const ssize_t n = ::recv(execd.get(), request, sizeof request, MSG_DONTWAIT);
  ASSERT_GT(n, 0);
  const std::string asked(request, static_cast<size_t>(n));
  EXPECT_TRUE(asked.starts_with("GET /.atoll/entrypoint/output?offset=7 HTTP/1.1\r\n")) << asked;
  EXPECT_NE(asked.find("\r\nX-Atoll-Internal: "), std::string::npos);
  EXPECT_NE(asked.find("\r\nX-EXECD-ACCESS-TOKEN: the-token\r\n"), std::string::npos);
  ASSERT_TRUE(Send(execd, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r"));
  Settle();
  ASSERT_TRUE(Send(execd, "\n" + Frame("after\n")));
  Settle();
  const std::string text = Text(kId);
  EXPECT_NE(text.find("before"), std::string::npos);
  EXPECT_NE(text.find("after"), std::string::npos);
  EXPECT_EQ(text.find("missing"), std::string::npos);
}

TEST_F(EntrypointLogsTest, ARemovedDirectoryCostsLinesOnly) {
  const UniqueFd execd = Follow(kId);
  std::filesystem::remove_all(config.directory);
  ASSERT_TRUE(Send(execd, Frame("x\n")));
  Settle();
  EXPECT_EQ(logs->stats().write_errors, 1U);
  EXPECT_EQ(logs->following(), 1U);
}

TEST_F(EntrypointLogsTest, WithoutADirectoryNothingIsKept) {
  config.directory.clear();
  Boot({});
  const UniqueFd execd = Follow(kId);
  EXPECT_EQ(logs->following(), 0U);
  EXPECT_EQ(logs->Watch(kId, true, [](bool) {}), 0U);
  EXPECT_EQ(Text(kId), "");
  logs->Remove(kId);
}

}  // namespace
}  // namespace atl::sandbox
