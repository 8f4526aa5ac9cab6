// Disk limits, from inside a sandbox and from the host. Each case makes an XFS and an ext4 file
// system for itself. Host kernels without quotas cannot run this; the guest's can.

#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "runtime/base/project_quota.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/store/projects.h"
#include "runtime/spawner/store/store_image.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/quota_store.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMi = 1ULL << 20;
// Disk limit of every sandbox here.
constexpr uint64_t kLimit = 16 * kMi;
// The most that overlayfs and XFS's preallocation use of the limit.
constexpr uint64_t kSlack = 3 * kMi;

constexpr char kFill[] = "busybox dd if=/dev/zero of=/big bs=1M count=48 2>/dev/null; ";

class LimitedSpawner : public SpawnerFixture {
 public:
  explicit LimitedSpawner(const std::string& type)
      : SpawnerFixture("ATOLL_START_AND_EXEC", [type](const std::string& data_dir) {
          return std::make_shared<QuotaStore>(type, data_dir);
        }) {}

  static cgroup::Limits WithDisk(uint64_t disk_bytes) {
    cgroup::Limits limits = DefaultLimits();
    limits.disk_bytes = disk_bytes;
    return limits;
  }
  Result<Sandbox> Start(const std::string& script, uint32_t slot = 1, uint64_t prepared = kLimit,
                        uint64_t built = kLimit) {
    ATOLL_TRY(Prepare(slot, WithDisk(prepared)));
    wire::Plan plan = PlanFor(slot);
    plan.limits.disk_bytes = built;
    ATOLL_ASSIGN(Sandbox sandbox, Build(plan));
    Claim(sandbox, script);
    return sandbox;
  }
  // Returns everything that `script` prints.
  std::string Output(const std::string& script, uint32_t slot = 1, uint64_t prepared = kLimit,
                     uint64_t built = kLimit) {
    auto sandbox = Start(script, slot, prepared, built);
    if (!sandbox) return "(" + sandbox.error().message() + ")";
    std::string output = ReadToEnd(sandbox->control.get());
    const Status gone = Destroy(sandbox->plan.id);
    EXPECT_TRUE(gone) << gone.error().message();
    return output;
  }
  std::string store() const { return data_dir() + "/store"; }
  quota::Usage UsageOf(uint32_t project) const {
    const auto fd = sys::Open(store(), O_PATH);
    return quota::ReadUsage(fd->get(), project).value_or(quota::Usage{~0ULL, ~0ULL});
  }
  uint32_t FirstProject(uint32_t slot) const {
    return spawner::FirstProject(hello().instance, slot);
  }
};

uint64_t Number(const std::string& text) {
  uint64_t number = 0;
  EXPECT_TRUE(std::istringstream(text) >> number) << "not a number: " << text;
  return number;
}

void ExpectFilled(const std::string& size, uint64_t limit = kLimit) {
  EXPECT_LE(Number(size), limit);
  EXPECT_GE(Number(size), limit - kSlack);
}

// Runs each case on both file systems.
#define QUOTA_TEST(name)                       \
  static void name##On(const std::string& on); \
  PRIV_TEST(QuotaXfs, name) {                  \
    name##On("xfs");                           \
  }                                            \
  PRIV_TEST(QuotaExt4, name) {                 \
    name##On("ext4");                          \
  }                                            \
  static void name##On(const std::string& on)

QUOTA_TEST(BytesEndAtTheLimit) {
  LimitedSpawner spawner(on);
  const auto& available = spawner.hello().limits_available;
  EXPECT_NE(std::find(available.begin(), available.end(), "disk"), available.end());
  const uint64_t before = QuotaStore::Free(spawner.store());
  auto sandbox = spawner.Start(
      "busybox dd if=/dev/zero of=/big bs=1M count=48 2>&1 | busybox grep -oE "
      "'No space left on device|Disk quota exceeded'; "
      "busybox wc -c </big; busybox df -k / | busybox tail -n 1; busybox sync; echo end; "
      "exec busybox sleep 1000");
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  std::string output;
  char byte = 0;
  while (output.find("end\n") == std::string::npos &&
         ::read(sandbox->control.get(), &byte, 1) == 1) {
    output.push_back(byte);
  }
  std::istringstream lines(output);
  std::string said, size, df;
  std::getline(lines, said);
  std::getline(lines, size);
  std::getline(lines, df);
  ExpectFilled(size);
  // The same errors as on a full disk. XFS reports a full project as ENOSPC, ext4 as EDQUOT.
  EXPECT_EQ(said, on == "xfs" ? "No space left on device" : "Disk quota exceeded");
  // df shows the limit, and nothing left of it.
  std::string name;
  uint64_t total = 0, used = 0, left = 0;
  std::istringstream(df) >> name >> total >> used >> left;
  EXPECT_EQ(total, kLimit >> 10) << df;
  EXPECT_LE(left, kSlack >> 10) << df;
  // The host lost the limit and the file system's metadata for it, no more.
  EXPECT_LE(before - QuotaStore::Free(spawner.store()), kLimit + 2 * kMi);
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
}

QUOTA_TEST(InodesEndAtTheirBound) {
  LimitedSpawner spawner(on);
  // A shell's redirection starts no process.
  const std::string output = spawner.Output(
      "mkdir -p /many; cd /many; i=0; while [ $i -lt 2000 ] && echo -n >$i; do i=$((i+1)); done "
      "2>/dev/null; echo $i");
  EXPECT_EQ(spawner::InodesFor(kLimit), 1024U);
  EXPECT_LE(Number(output), 1024U);
  EXPECT_GE(Number(output), 1000U);
}

QUOTA_TEST(ReservingIsCounted) {
  LimitedSpawner spawner(on);
  EXPECT_EQ(spawner.Output("cd /tmp; busybox fallocate -l 100000000 all 2>/dev/null || echo no; "
                           "busybox rm all; "
                           "busybox fallocate -l 10000000 some && echo yes; "
                           "busybox fallocate -l 10000000 more 2>/dev/null || echo no"),
            "no\nyes\nno\n");
}

QUOTA_TEST(HolesAreFreeUntilTheyAreFilled) {
  LimitedSpawner spawner(on);
  const std::string output = spawner.Output(
      "busybox truncate -s 1G /big && busybox du -k /big | busybox cut -f1; "
      "busybox dd if=/dev/zero of=/big bs=1M count=48 conv=notrunc 2>/dev/null; "
      "busybox du -k /big | busybox cut -f1");
  const size_t end = output.find('\n');
  EXPECT_LE(Number(output), 16U);
  EXPECT_LE(Number(output.substr(end)), kLimit >> 10);
  EXPECT_GE(Number(output.substr(end)), (kLimit - kSlack) >> 10);
}

// Directories of the image and the sandbox's own are one file system. There is no EXDEV, which
// programs handle badly, and no file escapes the account.
QUOTA_TEST(LinksAndRenamesWorkAndCountOnce) {
  LimitedSpawner spawner(on);
  const std::string output = spawner.Output(
      "set -e; cd /; busybox dd if=/dev/zero of=/a bs=1M count=8 2>/dev/null; mkdir d d/e; "
      "busybox ln a d/b; busybox mv a d/e/c; busybox mv d/e f; busybox mv f tmp; "
      "busybox ln tmp/f/c suid/x; set +e; " +
      std::string(kFill) + "busybox wc -c </big; busybox wc -c </suid/x");
  const size_t end = output.find('\n');
  EXPECT_LE(Number(output), kLimit - 8 * kMi);
  EXPECT_GE(Number(output), kLimit - 8 * kMi - kSlack);
  EXPECT_EQ(Number(output.substr(end)), 8 * kMi);
}

// chattr on a directory or file of the image would take it out of the project (seccomp.cc explains
// how). The test tries each, then fills everything that may have got out.
QUOTA_TEST(NothingInsideLeavesTheProject) {
  LimitedSpawner spawner(on);
  const std::string output = spawner.Output(
      "/bin/attack chattr-image-dir project-image-dir project-image-file chattr-own-dir "
      "project-own-dir file-setattr; "
      "for f in /suid/x /bin/x /bin/sh2 /own/x; do "
      "busybox dd if=/dev/zero of=$f bs=1M count=30 2>/dev/null; done; "
      "busybox dd if=/dev/zero of=/suid/busybox bs=1M count=30 2>/dev/null; "
      "busybox du -ks /suid /own /bin | busybox awk '{ n += $1 } END { print n }'");
  EXPECT_EQ(output.substr(0, output.rfind('\n', output.size() - 2) + 1),
            "chattr-image-dir: ENOTTY\n"
            "project-image-dir: ENOTTY\n"
            "project-image-file: ENOTTY\n"
            "chattr-own-dir: ENOTTY\n"
            "project-own-dir: ENOTTY\n"
            "file-setattr: ENOSYS\n");
  // The sum includes the image's own programs, which du counts, too.
  EXPECT_LE(Number(output.substr(output.rfind('\n', output.size() - 2) + 1)),
            (kLimit + 8 * kMi) >> 10);
  for (const auto& entry : fs::recursive_directory_iterator(spawner.store() + "/fs/uppers")) {
    ADD_FAILURE() << entry.path() << " is left";
  }
}

// The janitor may take long to delete a sandbox's files, here until one of them is no longer
// immutable. Only the sandbox's own slot waits for them.
QUOTA_TEST(TheNextInTheSlotStartsAtNothing) {
  LimitedSpawner spawner(on);
  const uint32_t first = spawner.FirstProject(1);
  auto sandbox = spawner.Start(std::string(kFill) + "echo x; exec busybox sleep 1000");
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  char x = 0;
  ASSERT_EQ(::read(sandbox->control.get(), &x, 1), 1);
  const auto big = sys::Open(spawner.store() + "/fs/uppers/s1/upper/big", O_RDONLY);
  ASSERT_TRUE(big) << big.error().message();
  int flags = 0;
  ASSERT_EQ(::ioctl(big->get(), FS_IOC_GETFLAGS, &flags), 0);
  flags |= FS_IMMUTABLE_FL;
  ASSERT_EQ(::ioctl(big->get(), FS_IOC_SETFLAGS, &flags), 0);
  ASSERT_TRUE(spawner.Destroy(sandbox->plan.id));
  EXPECT_GE(spawner.UsageOf(first).bytes, kLimit - kSlack);

  const Status held = spawner.TryPrepare(1);
  ASSERT_FALSE(held);
  EXPECT_EQ(CodeName(held.error().code()), CodeName(Code::kFailedPrecondition));
  flags &= ~FS_IMMUTABLE_FL;
  ASSERT_EQ(::ioctl(big->get(), FS_IOC_SETFLAGS, &flags), 0);
  // Another slot is free. The end of its sandbox makes the janitor try again.
  ExpectFilled(spawner.Output(std::string(kFill) + "busybox wc -c </big", 2));
  ExpectFilled(spawner.Output(std::string(kFill) + "busybox wc -c </big"));
}

QUOTA_TEST(AVolumeHasALimitOfItsOwn) {
  LimitedSpawner spawner(on);
  const auto make = [&](const std::string& name, uint64_t bytes) {
    Status made = Fail(Code::kDeadlineExceeded, "no answer");
    bool answered = false;
    spawner.client().Ask(wire::MakeVolume{name, bytes}, [&](Status status) {
      made = std::move(status);
      answered = true;
    });
    spawner.loop().RunUntil([&] { return answered; });
    return made;
  };
  ASSERT_TRUE(make("small", kLimit) && make("large", 2 * kLimit) && make("free", 0));
  const auto fill = [&](const std::string& name) {
    EXPECT_TRUE(spawner.Prepare(1, LimitedSpawner::WithDisk(kLimit)));
    wire::Plan plan = SpawnerFixture::PlanFor(1);
    plan.limits.disk_bytes = kLimit;
    wire::Volume volume;
    volume.source = name;
    volume.target = "/mnt";
    plan.volumes = {volume};
    auto sandbox = spawner.Build(plan);
    if (!sandbox) return sandbox.error().message();
    SpawnerFixture::Claim(*sandbox,
                          "busybox dd if=/dev/zero of=/mnt/big bs=1M count=48 2>/dev/null; "
                          "busybox wc -c </mnt/big; busybox dd if=/dev/zero of=/own bs=1M count=8 "
                          "2>/dev/null; busybox wc -c </own");
    std::string output = SpawnerFixture::ReadToEnd(sandbox->control.get());
    EXPECT_TRUE(spawner.Destroy(plan.id));
    return output;
  };
  const auto expect = [](const std::string& output, uint64_t limit) {
    ExpectFilled(output, limit);
    // The sandbox's own files count in another account.
    EXPECT_EQ(Number(output.substr(output.find('\n'))), 8 * kMi);
  };
  expect(fill("small"), kLimit);
  expect(fill("large"), 2 * kLimit);
  EXPECT_EQ(Number(fill("free")), 48 * kMi);
  // Another sandbox that uses the same volume does not get around its limit either.
  EXPECT_LE(Number(fill("small")), kLimit);
}

QUOTA_TEST(NothingIsLeftOfAProject) {
  LimitedSpawner spawner(on);
  const uint32_t first = spawner.FirstProject(3);
  ExpectFilled(spawner.Output(std::string(kFill) + "busybox wc -c </big", 3));
  bool stopped = false;
  spawner.client().Ask(wire::Stop(), [&](const Status&) { stopped = true; });
  ASSERT_TRUE(spawner.loop().RunUntil([&] { return stopped; }));
  // The spawner waits for its janitor.
  spawner.AwaitEnd();
  const auto fd = sys::Open(spawner.store(), O_RDONLY | O_DIRECTORY);
  // XFS frees deleted files in the background. syncfs waits for that.
  ASSERT_EQ(::syncfs(fd->get()), 0);
  EXPECT_EQ(spawner.UsageOf(first).inodes, 0U);
  EXPECT_EQ(spawner.UsageOf(first).bytes, 0U);
  if_dqblk block{};
  if (::syscall(SYS_quotactl_fd, fd->get(), QCMD(Q_GETQUOTA, PRJQUOTA), first, &block) == 0) {
    EXPECT_EQ(block.dqb_bhardlimit, 0U);
    EXPECT_EQ(block.dqb_ihardlimit, 0U);
  }
}

QUOTA_TEST(SandboxesDoNotFillEachOther) {
  LimitedSpawner spawner(on);
  auto full = spawner.Start(std::string(kFill) + "echo x; exec busybox sleep 1000", 1);
  ASSERT_TRUE(full) << full.error().message();
  char x = 0;
  ASSERT_EQ(::read(full->control.get(), &x, 1), 1);
  ExpectFilled(spawner.Output(std::string(kFill) + "busybox wc -c </big", 2));
  EXPECT_TRUE(spawner.Destroy(full->plan.id));
}

QUOTA_TEST(APlanMayDifferFromItsSlot) {
  LimitedSpawner spawner(on);
  const std::string script = std::string(kFill) + "busybox wc -c </big";
  ExpectFilled(spawner.Output(script, 1, kLimit, 2 * kLimit), 2 * kLimit);
  ExpectFilled(spawner.Output(script, 2, 2 * kLimit, kLimit));
  ExpectFilled(spawner.Output(script, 3, 0, kLimit));
  EXPECT_EQ(Number(spawner.Output(script, 4, kLimit, 0)), 48 * kMi);
}

// `atolld storage init` leaves an image. The spawner mounts it visibly for the whole host, keeps it
// mounted if it is killed, and unmounts it if it is stopped.
PRIV_TEST(QuotaImage, IsMountedByTheSpawner) {
  std::string store;
  {
    SpawnerFixture spawner("ATOLL_START_AND_EXEC", [](const std::string& data_dir) {
      const std::string image = spawner::StoreImagePath(data_dir);
      auto file = sys::Open(image, O_RDWR | O_CREAT | O_EXCL, 0600);
      EXPECT_TRUE(file && ::ftruncate(file->get(), 1 << 30) == 0);
      EXPECT_TRUE(RunProgram("/usr/sbin/mkfs.xfs", {"-q", image.c_str()}));
      return nullptr;
    });
    store = spawner.data_dir() + "/store";
    EXPECT_TRUE(spawner::IsMountPoint(store));
    EXPECT_TRUE(quota::Enforced(sys::Open(store, O_PATH)->get()));
    auto sandbox = spawner.Build(1);
    ASSERT_TRUE(sandbox) << sandbox.error().message();
    SpawnerFixture::Claim(*sandbox, "exec busybox sleep 1000");
    spawner.KillProcess();
    EXPECT_TRUE(spawner::IsMountPoint(store));
    spawner.StartProcess();
    spawner.Connect();
    ASSERT_EQ(spawner.hello().sandboxes.size(), 1U);
    EXPECT_FALSE(spawner.hello().sandboxes[0].exited);
    EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
    EXPECT_EQ(spawner.Run("echo again"), "again\n");
    bool stopped = false;
    spawner.client().Ask(wire::Stop(), [&](const Status&) { stopped = true; });
    ASSERT_TRUE(spawner.loop().RunUntil([&] { return stopped; }));
    spawner.AwaitEnd();
    EXPECT_FALSE(spawner::IsMountPoint(store));
  }
}

PRIV_TEST(QuotaImage, OfAnotherUserOrWithContentInItsPlaceIsRefused) {
  ScratchDir scratch;
  const std::string data_dir = scratch / "data";
  fs::create_directories(data_dir + "/store/fs/layers/1");
  const std::string image = spawner::StoreImagePath(data_dir);
  EXPECT_TRUE(spawner::MountStore(data_dir)) << "no image, nothing to do";
  auto file = sys::Open(image, O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_TRUE(file && ::ftruncate(file->get(), 1 << 30) == 0);
  ASSERT_TRUE(RunProgram("/usr/sbin/mkfs.xfs", {"-q", image.c_str()}));
  const Status content = spawner::MountStore(data_dir);
  ASSERT_FALSE(content);
  EXPECT_NE(content.error().message().find("would hide"), std::string::npos);
  fs::remove(data_dir + "/store/fs/layers/1");
  ASSERT_EQ(::chmod(image.c_str(), 0620), 0);
  EXPECT_EQ(spawner::MountStore(data_dir).error().code(), Code::kFailedPrecondition);
  ASSERT_EQ(::chmod(image.c_str(), 0600), 0);
  ASSERT_TRUE(spawner::MountStore(data_dir));
  EXPECT_TRUE(spawner::MountStore(data_dir)) << "mounted already";
  EXPECT_TRUE(spawner::UnmountStore(data_dir));
  EXPECT_FALSE(spawner::IsMountPoint(data_dir + "/store"));
}

}  // namespace
}  // namespace atl::priv
