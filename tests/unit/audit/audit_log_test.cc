#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sys.h"
#include "runtime/tenants/audit/audit_log.h"
#include "runtime/tenants/audit/audit_search.h"
#include "runtime/tenants/audit/audit_verify.h"
#include "runtime/tenants/audit/log_files.h"
#include "tests/support/poll_loop.h"

namespace atl::audit {
namespace {

class AuditLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/atoll-audit-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    settings_.directory = name;
  }
  void TearDown() override {
    log_.reset();
    ASSERT_TRUE(sys::RemoveTree(AT_FDCWD, settings_.directory));
  }

  void Open() {
    log_.reset();
    auto log = AuditLog::Open(loop_, SystemClock(), health_, settings_);
    ASSERT_TRUE(log) << log.error().message();
    log_ = std::move(*log);
  }
  void WriteLines(int count) {
    for (int i = 0; i < count; ++i) {
      log_->Write({.action = "sandbox.create",
                   .outcome = "success",
                   .status = 202,
                   .target = {"sandbox", "id" + std::to_string(i)}});
      RunPool();
    }
  }
  // Returns the number of the line.
  uint64_t WriteLine(const std::string& tenant, const std::string& id) {
    log_->Write({.action = "sandbox.create",
                 .outcome = "success",
                 .status = 202,
                 .tenant = tenant,
                 .target = {"sandbox", id}});
    const uint64_t seq = log_->head().seq;
    RunPool();
    return seq;
  }
  // Lets the work of pool threads, which this loop does at once, be over.
  void RunPool() {
    bool over = false;
    loop_.After(0, [&over] { over = true; });
    ASSERT_TRUE(loop_.RunUntil([&over] { return over; }));
  }
  std::string PathOf(uint64_t index) const {
    return settings_.directory + "/" + LogFile{.index = index}.Name();
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static void Replace(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  std::vector<nlohmann::json> Lines(uint64_t index = 1) const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(Read(PathOf(index)));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  VerifyReport Verify(const std::optional<Head>& head = {}) const {
    auto report = VerifyLog(settings_.directory, head);
    EXPECT_TRUE(report) << report.error().message();
    return report.value_or(VerifyReport());
  }
  // Limits the size of files of this process, which is how a disk is full here.
  static void LimitFiles(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }

  testing::PollLoop loop_;
  Health health_;
  LogSettings settings_{.file_bytes = 16 << 10};
  std::unique_ptr<AuditLog> log_;
};

TEST_F(AuditLogTest, TheChainGoesOnAfterARestart) {
  Open();
  WriteLines(3);
  const std::string first_boot = log_->boot();
  Open();
  WriteLines(2);
  EXPECT_NE(log_->boot(), first_boot);
  EXPECT_EQ(log_->head().seq, 5u);
  const VerifyReport report = Verify(log_->head());
  EXPECT_TRUE(report.good());
  EXPECT_EQ(report.lines, 5u);
  ASSERT_EQ(report.boots.size(), 2u);
  EXPECT_EQ(report.boots[0].id, first_boot);
  EXPECT_EQ(report.boots[1].first_seq, 4u);
  EXPECT_EQ(Lines()[3]["prev"], Lines()[2]["hash"]);
  struct stat info {};
  ASSERT_EQ(::stat(PathOf(1).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  // The room of the whole file is there already.
  EXPECT_GE(info.st_blocks * 512, static_cast<blkcnt_t>(settings_.file_bytes));
}

TEST_F(AuditLogTest, AnIncompleteLineIsCutOffAndTold) {
  const std::string tails[] = {"{\"v\":1,\"seq\":3,\"bo", std::string(200'000, '\0'), "x"};
  for (const std::string& tail : tails) {
    SetUp();
    Open();
    WriteLines(2);
    log_.reset();
    std::ofstream(PathOf(1), std::ios::app | std::ios::binary) << tail;
    if (tail.size() < kMaxLine) {
      EXPECT_EQ(Verify().torn, tail.size());
    }
    Open();
    WriteLines(1);
    const auto lines = Lines();
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[2]["action"], "audit.gap");
    EXPECT_EQ(lines[2]["seq"], 3);
    EXPECT_EQ(lines[2]["what"]["bytes"], tail.size());
    const VerifyReport report = Verify();
    EXPECT_TRUE(report.good());
    EXPECT_EQ(report.gaps.size(), 1u);
    if (&tail != std::end(tails) - 1) TearDown();
  }
}

TEST_F(AuditLogTest, RefusesToContinueAForgedLine) {
  Open();
  WriteLines(2);
  log_.reset();
  std::string text = Read(PathOf(1));
  text.replace(text.rfind("id1"), 3, "id2");
  Replace(PathOf(1), text);
  auto log = AuditLog::Open(loop_, SystemClock(), health_, settings_);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code(), Code::kFailedPrecondition);
}

TEST_F(AuditLogTest, ASecondDaemonIsRefused) {
  Open();
  auto second = AuditLog::Open(loop_, SystemClock(), health_, settings_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kFailedPrecondition);
}

TEST_F(AuditLogTest, ItsGroupMayReadItWhateverTheUmask) {
  const mode_t before = ::umask(0077);
  Open();
  WriteLines(1);
  const auto directory = sys::Open(settings_.directory, O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(directory);
  struct stat plain {
  }, packed{};
  EXPECT_EQ(::stat(PathOf(1).c_str(), &plain), 0);
  EXPECT_TRUE(Compress(directory->get(), 1));
  ::umask(before);
  const std::string name = LogFile{.index = 1, .compressed = true}.Name();
  EXPECT_EQ(::stat((settings_.directory + "/" + name).c_str(), &packed), 0);
  EXPECT_EQ(plain.st_mode & 07777, kFileMode);
  EXPECT_EQ(packed.st_mode & 07777, kFileMode);
}

TEST_F(AuditLogTest, FilesEndAreCompressedAndVerifyAsOneChain) {
  Open();
  WriteLines(200);
  auto directory = sys::Open(settings_.directory, O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(directory);
  auto files = ListLogFiles(directory->get());
  ASSERT_TRUE(files);
  ASSERT_GE(files->size(), 4u);
  for (const LogFile& file : *files) {
    EXPECT_EQ(file.compressed, &file != &files->back());
    if (file.compressed) {
      EXPECT_LT(file.size, settings_.file_bytes / 2);
    }
  }
  const VerifyReport report = Verify(log_->head());
  EXPECT_TRUE(report.good()) << report.bad->reason;
  EXPECT_EQ(report.lines, 200u);
  EXPECT_EQ(report.files, files->size());
  // An offset counts in the plain text.
  auto reader = LogReader::Open(directory->get(), 1);
  ASSERT_TRUE(reader);
  std::string second;
  uint64_t offset = 0;
  for (int i = 0; i < 2; ++i) {
    offset = reader->offset();
    second = **reader->Next();
  }
  auto later = LogReader::Open(directory->get(), 1, offset);
  ASSERT_TRUE(later);
  EXPECT_EQ(**later->Next(), second);
  // A restart continues, even if nothing but compressed files is there.
  const Head head = log_->head();
  log_.reset();
  ASSERT_TRUE(Compress(directory->get(), files->back().index));
  Open();
  WriteLines(1);
  EXPECT_EQ(log_->head().seq, head.seq + 1);
  EXPECT_TRUE(Verify(head).good());
}

TEST_F(AuditLogTest, TheOldestFilesAreDeletedButNotForASinkThatNeedsThem) {
  settings_.keep_seconds = 1;
  Open();
  log_->SetNeeded([] { return uint64_t{1}; });
  WriteLines(100);
  EXPECT_EQ(Verify().first_seq, 1u);  // too young, and needed
  for (uint64_t index = 1; index <= 2; ++index) {
    const timespec old[] = {{1, 0}, {1, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, PathOf(index).c_str(), old, 0), 0);
  }
  WriteLines(40);
  EXPECT_EQ(Verify().first_seq, 1u);
  log_->SetNeeded([] { return UINT64_MAX; });
  WriteLines(40);
  const VerifyReport report = Verify(log_->head());
  EXPECT_GT(report.first_seq, 1u);
  EXPECT_TRUE(report.good());
}

TEST_F(AuditLogTest, KeepBytesDeletesEvenWhatASinkNeeds) {
  settings_.keep_bytes = 40 << 10;
  Open();
  log_->SetNeeded([] { return uint64_t{1}; });
  WriteLines(300);
  const VerifyReport report = Verify();
  EXPECT_GT(report.first_seq, 1u);
  EXPECT_LT(report.lines, 200u);
  EXPECT_TRUE(report.good()) << report.bad->reason;
  EXPECT_EQ(report.found_so, "");
}

TEST_F(AuditLogTest, TheFloodOfOneTenantPushesOutItsOwnLinesOnly) {
  settings_.keep_bytes = 200 << 10;
  settings_.tenant_bytes = 8 << 10;
  Open();
  const auto search = [&](const std::optional<std::string>& tenant) {
    std::vector<uint64_t> found;
    EXPECT_TRUE(Search(settings_.directory, {.tenant = tenant}, [&](std::string_view line) {
      found.push_back(ParseLine(line)->seq);
      return true;
    }));
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
    EXPECT_EQ(std::adjacent_find(found.begin(), found.end()), found.end());
    return found;
  };
  std::vector<uint64_t> blue;
  for (int i = 0; i < 5; ++i) blue.push_back(WriteLine("blue", "id" + std::to_string(i)));
  const uint64_t host = WriteLine("", "host");
  // Texts that zstd cannot shorten, as a hostile tenant would choose them.
  uint64_t last_red = 0;
  for (int i = 0; i < 2000; ++i) last_red = WriteLine("red", HexEncode(sys::RandomBytes(100)));
  for (int i = 5; i < 8; ++i) blue.push_back(WriteLine("blue", "id" + std::to_string(i)));
  const VerifyReport report = Verify(log_->head());
  EXPECT_TRUE(report.good()) << (report.bad ? report.bad->reason : report.head_trouble);
  EXPECT_GT(report.first_seq, 6u);
  EXPECT_GE(report.kept, 6u);
  EXPECT_EQ(search("blue"), blue);
  EXPECT_EQ(search("").front(), host) << "before lines about the files that went";
  const auto red = search("red");
  EXPECT_LT(red.size(), 1900u);
  EXPECT_EQ(red.back(), last_red);
  EXPECT_EQ(search({}).size(), red.size() + blue.size() + search("").size());

  uint64_t size = 0;
  for (const auto& file : std::filesystem::directory_iterator(settings_.directory)) {
    size += file.file_size();
  }
  // The newest file is not deleted.
  EXPECT_LE(size, settings_.keep_bytes + 2 * settings_.file_bytes);

  // A second time the same files are there, and nothing is kept twice.
  Open();
  EXPECT_EQ(search("blue").size(), 8u);
  const std::string path = settings_.directory + "/tenant-blue.jsonl";
  const std::string whole = Read(path);
  std::string changed = whole;
  changed[changed.find("id2") + 2] = '9';
  Replace(path, changed);
  const VerifyReport bad = Verify();
  ASSERT_TRUE(bad.bad);
  EXPECT_EQ(bad.bad->file, "tenant-blue.jsonl");
  EXPECT_EQ(bad.bad->line, 3u);
  Replace(path, whole + whole.substr(0, whole.find('\n') + 1));
  EXPECT_FALSE(Verify().good());
}

TEST_F(AuditLogTest, LinesBeyondTheirAgeAreNotKept) {
  settings_.keep_bytes = 100 << 10;
  settings_.tenant_bytes = 8 << 10;
  settings_.keep_seconds = 1000;
  Open();
  WriteLine("blue", "id");
  for (int i = 0; i < 1000; ++i) WriteLine("red", HexEncode(sys::RandomBytes(100)));
  const std::string path = settings_.directory + "/tenant-blue.jsonl";
  ASSERT_TRUE(std::filesystem::exists(path));
  const timespec old[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  for (int i = 0; i < 200; ++i) WriteLine("red", HexEncode(sys::RandomBytes(100)));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(Verify().good());
}

TEST_F(AuditLogTest, AFullDiskRefusesAndIsToldAfterwards) {
  Open();
  WriteLines(2);
  struct stat info {};
  ASSERT_EQ(::stat(PathOf(1).c_str(), &info), 0);
  EXPECT_TRUE(log_->MayAct());
  LimitFiles(static_cast<rlim_t>(info.st_size) + 100);  // room for a part of a line
  WriteLines(2);
  log_->Write({.action = "sandbox.delete", .outcome = "success"});
  EXPECT_FALSE(log_->MayAct());
  EXPECT_TRUE(health_.troubles().contains("audit"));
  log_->Tick();
  EXPECT_FALSE(log_->MayAct());
  LimitFiles(RLIM_INFINITY);
  EXPECT_EQ(Lines().size(), 2u);  // nothing of the incomplete line is left
  log_->Tick();
  EXPECT_TRUE(log_->MayAct());
  EXPECT_FALSE(health_.troubles().contains("audit"));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2]["action"], "audit.gap");
  EXPECT_EQ(lines[2]["what"]["count"], 3);
  EXPECT_EQ(lines[2]["what"]["by_action"], "sandbox.create=2 sandbox.delete=1");
  EXPECT_TRUE(Verify().good());
}

TEST_F(AuditLogTest, ContinueLetsClientsAct) {
  settings_.refuses = false;
  Open();
  LimitFiles(10);
  WriteLines(1);
  LimitFiles(RLIM_INFINITY);
  EXPECT_TRUE(log_->MayAct());
  EXPECT_TRUE(health_.troubles().contains("audit"));
}

TEST_F(AuditLogTest, VerifyNamesTheFirstBadLine) {
  Open();
  WriteLines(10);
  const Head head = log_->head();
  log_.reset();
  const std::string text = Read(PathOf(1));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  const auto joined = [](std::vector<std::string> parts) {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  };
  const auto bad_line = [&](const std::vector<std::string>& changed) {
    Replace(PathOf(1), joined(changed));
    const VerifyReport report = Verify();
    return report.bad ? report.bad->line : 0;
  };
  EXPECT_EQ(bad_line(lines), 0u);
  auto changed = lines;
  changed[4].replace(changed[4].find("id4"), 3, "id5");
  EXPECT_EQ(bad_line(changed), 5u);
  auto removed = lines;
  removed.erase(removed.begin() + 6);
  EXPECT_EQ(bad_line(removed), 7u);
  auto doubled = lines;
  doubled.insert(doubled.begin() + 2, lines[2]);
  EXPECT_EQ(bad_line(doubled), 4u);
  auto swapped = lines;
  std::swap(swapped[2], swapped[3]);
  EXPECT_EQ(bad_line(swapped), 3u);
  EXPECT_EQ(bad_line({lines.begin() + 1, lines.end()}), 1u);
  EXPECT_EQ(bad_line({lines[0], "\n", lines[1]}), 2u);

  // The chain of a line that was changed and hashed again breaks at the next one.
  auto rehashed = lines;
  LineFormatter formatter;
  const std::string prev = nlohmann::json::parse(lines[3])["prev"];
  rehashed[3] = formatter.Format({.action = "sandbox.delete", .outcome = "success"},
                                 {.seq = 4, .boot = "aa", .unix_micros = 1, .prev = prev});
  EXPECT_EQ(bad_line(rehashed), 5u);

  // Only a head that was kept elsewhere shows a missing end.
  Replace(PathOf(1), joined({lines.begin(), lines.end() - 1}));
  EXPECT_TRUE(Verify().good());
  EXPECT_FALSE(Verify(head).good());
  Replace(PathOf(1), text);
  EXPECT_TRUE(Verify(head).good());
  EXPECT_FALSE(Verify(Head{9, head.hash}).good());
}

TEST_F(AuditLogTest, AMissingFileIsBad) {
  Open();
  WriteLines(150);
  log_.reset();
  ASSERT_EQ(::unlink((PathOf(2) + ".zst").c_str()), 0);
  const VerifyReport report = Verify();
  ASSERT_TRUE(report.bad);
  EXPECT_EQ(report.bad->file, "000002.jsonl");
}

TEST_F(AuditLogTest, AMissingBeginningIsBad) {
  Open();
  WriteLines(200);
  log_.reset();
  ASSERT_EQ(::unlink((PathOf(1) + ".zst").c_str()), 0);
  VerifyReport report = Verify();
  ASSERT_TRUE(report.bad);
  EXPECT_EQ(report.bad->file, "000002.jsonl.zst");
  const uint64_t first = report.first_seq;
  EXPECT_GT(first, 1u);
  // The next daemon tells of it, once, and does not make it good.
  Open();
  const Head head = log_->head();
  Open();
  EXPECT_EQ(log_->head(), head);
  report = Verify();
  ASSERT_TRUE(report.bad);
  ASSERT_EQ(report.gaps.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(report.gaps[0].line)["what"]["to_seq"], first - 1);
}

TEST_F(AuditLogTest, WhatRetentionHasDeletedIsToldInTheChain) {
  settings_.keep_bytes = 40 << 10;
  Open();
  log_->SetNeeded([] { return uint64_t{1}; });
  WriteLines(300);
  ASSERT_TRUE(Verify().good());
  const uint64_t first = Verify().first_seq;
  EXPECT_GT(first, 1u);
  const uint64_t lines = log_->head().seq;
  Open();
  EXPECT_EQ(log_->head().seq, lines) << "nothing is missing";
  log_.reset();
  auto directory = sys::Open(settings_.directory, O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(directory);
  const auto files = ListLogFiles(directory->get());
  ASSERT_TRUE(files);
  ASSERT_GE(files->size(), 2u);
  // One file more than retention.
  ASSERT_EQ(::unlinkat(directory->get(), files->front().Name().c_str(), 0), 0);
  EXPECT_FALSE(Verify().good());
}

// It did not tell of what it deleted.
TEST_F(AuditLogTest, ALogThatAnOlderReleaseHasTrimmedIsTakenAsItIs) {
  Open();
  WriteLines(200);
  log_.reset();
  ASSERT_EQ(::unlink((PathOf(1) + ".zst").c_str()), 0);
  ASSERT_EQ(::unlink((settings_.directory + "/begin").c_str()), 0);
  EXPECT_FALSE(Verify().good());
  Open();
  VerifyReport report = Verify();
  EXPECT_TRUE(report.good()) << report.bad->reason;
  EXPECT_NE(report.found_so, "") << "but told";
  log_.reset();
  ASSERT_EQ(::unlink((PathOf(2) + ".zst").c_str()), 0);
  EXPECT_FALSE(Verify().good()) << "now it is known";
}

// The daemon was killed between the line and the removal.
TEST_F(AuditLogTest, FilesThatWereToGoMayStillBeThere) {
  Open();
  WriteLines(150);
  const Head head = log_->head();
  log_.reset();
  Replace(settings_.directory + "/begin", HeadText({100, head.hash}) + "\n");
  Open();
  EXPECT_EQ(log_->head(), head);
  EXPECT_TRUE(Verify().good());
}

TEST_F(AuditLogTest, NothingIsDeletedThatTheChainCannotTell) {
  settings_.keep_seconds = 1;
  Open();
  WriteLines(40);
  const auto path = PathOf(1);
  const timespec old[] = {{1, 0}, {1, 0}};
  WriteLines(60);
  ASSERT_EQ(::utimensat(AT_FDCWD, (path + ".zst").c_str(), old, 0), 0);
  // The disk is full.
  LimitFiles(100);  // room for "begin"
  Open();
  RunPool();
  EXPECT_TRUE(std::filesystem::exists(path + ".zst"));
  LimitFiles(RLIM_INFINITY);
  log_->Tick();
  Open();
  RunPool();
  EXPECT_FALSE(std::filesystem::exists(path + ".zst"));
  EXPECT_TRUE(Verify().good());
}

// A line that Write has returned for is there, however the daemon ends.
TEST_F(AuditLogTest, NoWrittenLineIsLostToKill9) {
  settings_.file_bytes = 1 << 20;
  uint64_t told = 0;
  for (int round = 0; round < 5; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto log = AuditLog::Open(loop_, SystemClock(), health_, settings_);
      if (!log) ::_exit(1);
      for (;;) {
        (*log)->Write({.action = "sandbox.create", .outcome = "success"});
        const uint64_t seq = (*log)->head().seq;
        if (::write(ends[1], &seq, sizeof seq) != sizeof seq) ::_exit(2);
      }
    }
    ::close(ends[1]);
    for (int i = 0; i < 200 + 37 * round; ++i) {
      uint64_t seq = 0;
      ASSERT_EQ(::read(ends[0], &seq, sizeof seq), static_cast<ssize_t>(sizeof seq));
      told = seq;
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    uint64_t seq = 0;
    while (::read(ends[0], &seq, sizeof seq) == static_cast<ssize_t>(sizeof seq)) told = seq;
    ::close(ends[0]);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const VerifyReport report = Verify();
    EXPECT_TRUE(report.good());
    EXPECT_GE(report.head.seq, told);
  }
}

}  // namespace
}  // namespace atl::audit
