// The records on a full file system, where somebody else at once takes all space that becomes free.
// Each case has a tmpfs of its own.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <map>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/volume_store.h"
#include "tests/priv/priv_test.h"

namespace atl::sandbox {
namespace {

// Holds the log, the reserved room and some records.
constexpr char kSize[] = "size=96m";

class FullDisk {
 public:
  FullDisk() {
    EXPECT_EQ(::unshare(CLONE_NEWNS), 0);
    EXPECT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    EXPECT_EQ(::mount("none", scratch_.path().c_str(), "tmpfs", 0, kSize), 0);
    filler_ = std::move(*sys::Open(scratch_ / "filler", O_WRONLY | O_CREAT, 0600));
  }
  ~FullDisk() {
    filler_.reset();
    EXPECT_EQ(::umount2(scratch_.path().c_str(), MNT_DETACH), 0);
  }
  std::string Path() const { return scratch_ / "atoll.db"; }
  // Fills every byte of the disk.
  void Fill() {
    const std::string block(4096, 'x');
    while (::write(filler_.get(), block.data(), block.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
  }
  void MakeRoom() { EXPECT_EQ(::ftruncate(filler_.get(), 0), 0); }
  uint64_t Free() const {
    struct statvfs info {};
    EXPECT_EQ(::statvfs(scratch_.path().c_str(), &info), 0);
    return info.f_bavail * info.f_frsize;
  }

 private:
  priv::ScratchDir scratch_;
  UniqueFd filler_;
};

Sandbox Numbered(int number) {
  Sandbox s;
  s.id = "00000000-0000-4000-8000-" + std::to_string(100'000'000'000 + number);
  s.spec.image = "busybox";
  s.spec.entrypoint = {"sleep", "1"};
  s.metadata = {{"text", std::string(500, 'm')}};
  s.state = State::kRunning;
  return s;
}

std::map<std::string, Sandbox> Loaded(Store& store) {
  std::map<std::string, Sandbox> all;
  auto loaded = store.Load();
  EXPECT_TRUE(loaded);
  for (Sandbox& s : *loaded) all.emplace(s.id, std::move(s));
  return all;
}

// Inserts until the store refuses. Returns the number of inserted records.
int InsertUntilRefused(Store& store, int from) {
  for (int i = from; i < from + 100'000; ++i) {
    const Status inserted = store.Insert(Numbered(i));
    if (inserted) continue;
    EXPECT_EQ(inserted.error().code(), Code::kResourceExhausted);
    EXPECT_EQ(inserted.error().error_number(), ENOSPC) << inserted.error().message();
    return i - from;
  }
  ADD_FAILURE() << "100,000 records on a full disk";
  return 0;
}

PRIV_TEST(StoreFull, WhatIsThereCanBeChangedAndRemoved) {
  FullDisk disk;
  auto opened = Store::Open(disk.Path());
  ASSERT_TRUE(opened) << opened.error().message();
  Store& store = **opened;
  auto volumes = std::move(*VolumeStore::Open(disk.Path()));
  const VolumeRecord volume{"v", VolumeRecord::State::kMaking, 0, "", ""};
  ASSERT_TRUE(volumes->Write(volume));
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(store.Insert(Numbered(i)));
  disk.Fill();
  const int more = InsertUntilRefused(store, 200);
  EXPECT_EQ(store.Check().error().error_number(), ENOSPC);
  EXPECT_EQ(volumes->Write({"w", VolumeRecord::State::kMaking, 0, "", ""}).error().error_number(),
            ENOSPC);

  // Several times the size of the log, so the log has to be checkpointed into the database.
  for (int i = 0; i < 20'000; ++i) {
    Sandbox s = Numbered(i % 200);
    s.slot = static_cast<uint32_t>(i);
    const Status updated = store.Update(s);
    ASSERT_TRUE(updated) << i << ": " << updated.error().message();
    if (i % 1000 == 0) disk.Fill();
  }
  Sandbox patched = Numbered(0);
  patched.metadata["more"] = std::string(1000, 'n');
  EXPECT_TRUE(store.UpdateSpec(patched));
  EXPECT_TRUE(volumes->Rewrite({"v", VolumeRecord::State::kRemoving, 0, "", ""}));
  EXPECT_TRUE(volumes->Remove("v"));
  for (int i = 1; i < 200 + more; ++i) {
    const Status removed = store.Remove(Numbered(i).id);
    ASSERT_TRUE(removed) << i << ": " << removed.error().message();
    if (i % 100 == 0) disk.Fill();
  }
  EXPECT_EQ(disk.Free(), 0U);
  const auto left = Loaded(store);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left.begin()->second.metadata, patched.metadata);

  disk.MakeRoom();
  EXPECT_TRUE(store.Check());
  EXPECT_TRUE(store.Insert(Numbered(9999)));
}

// Runs `work` as a daemon that is killed, in a process of its own.
void Killed(const std::string& path, void (*work)(Store& store)) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    auto store = Store::Open(path);
    if (!store) ::_exit(1);
    work(**store);
    ::_exit(testing::Test::HasFailure() ? 2 : 0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

PRIV_TEST(StoreFull, StartsAgainAndAgain) {
  FullDisk disk;
  Killed(disk.Path(), [](Store& store) {
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(store.Insert(Numbered(i)));
  });
  for (int round = 0; round < 3; ++round) {
    disk.Fill();
    Killed(disk.Path(), [](Store& store) {
      const auto all = Loaded(store);
      const std::string first = all.begin()->first;
      EXPECT_TRUE(store.Remove(first));
      Sandbox second = std::next(all.begin())->second;
      second.state = State::kPaused;
      EXPECT_TRUE(store.Update(second));
    });
    disk.Fill();
    // A clean end does not give the room back either.
    auto store = Store::Open(disk.Path());
    ASSERT_TRUE(store) << store.error().message();
    const auto all = Loaded(**store);
    EXPECT_EQ(all.size(), 99U - static_cast<size_t>(round));
    EXPECT_EQ(all.begin()->second.state, State::kPaused);
  }
}

// The daemon of the previous release can open it again.
PRIV_TEST(StoreFull, AStoreOfTheLastReleaseStaysAsItIsUntilThereIsRoom) {
  FullDisk disk;
  const auto ask = [&disk](const std::string& sql) {
    auto db = sqlite::Db::Open(disk.Path(), {.log_bytes = Store::kLogBytes});
    auto row = db->Prepare(sql);
    EXPECT_TRUE(row && *row->Step()) << sql;
    return row->ColumnInt(0);
  };
  {
    const auto last = sys::ReadFileAt(AT_FDCWD, SANDBOX_STORES "/schema_2.sql", 1 << 20);
    ASSERT_TRUE(last);
    auto db = sqlite::Db::Open(disk.Path(), {.log_bytes = Store::kLogBytes});
    ASSERT_TRUE(db && db->Exec(*last));
    ASSERT_TRUE(db->Exec(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
        "INSERT INTO sandboxes SELECT 'more-' || i, state, reason, message, transition_ms, 1000, "
        "created_ms, expires_ms, json_set(spec, '$.metadata.text', hex(zeroblob(500))) "
        "FROM n, (SELECT * FROM sandboxes WHERE slot = 4)"));
  }
  disk.Fill();
  const auto refused = Store::Open(disk.Path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error_number(), ENOSPC) << refused.error().message();
  EXPECT_EQ(ask("PRAGMA user_version"), 2);
  EXPECT_EQ(ask("SELECT count(spec) FROM sandboxes"), 2011);
  disk.MakeRoom();
  auto store = Store::Open(disk.Path());
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ(Loaded(**store).size(), 2011U);
  EXPECT_TRUE((*store)->Check());
}

// Another process must not remove the log that this one writes to.
PRIV_TEST(StoreFull, IsItsDaemonsAlone) {
  const priv::ScratchDir scratch;
  const std::string path = scratch / "atoll.db";
  auto store = Store::Open(path);
  ASSERT_TRUE(store);
  // Opens and closes the file beside it, as the thread that moves the log does.
  ASSERT_TRUE(VolumeStore::Open(path));
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Tests whether the range in which SQLite locks a database (its file format, section 1.2) is
    // free for another process.
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_start = 0x40000002;
    lock.l_len = 510;
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    const bool asked = ::fcntl(file, F_GETLK, &lock) == 0;
    ::_exit(asked && lock.l_type != F_UNLCK ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0) << "another process could open it, and remove its log";
}

}  // namespace
}  // namespace atl::sandbox
