// Leftovers of sandboxes and volumes, and the janitor that deletes them.

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/store/trash.h"
#include "tests/priv/spawner_volume_lab.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

bool Until(const std::function<bool()>& condition) {
  const int64_t deadline = SystemClock().BootMicros() + 60'000'000;
  while (!condition()) {
    if (SystemClock().BootMicros() > deadline) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Makes `count` names of one file. They are cheap to make, and each is an entry to remove.
void Fill(const std::string& directory, int count) {
  std::ofstream(directory + "/0") << "x";
  for (int i = 1; i < count; ++i) {
    ASSERT_EQ(::link((directory + "/0").c_str(), (directory + "/" + std::to_string(i)).c_str()), 0);
  }
}

// More huge trees than the janitor works on at a time, and then a small one.
PRIV_TEST(Trash, ASmallTreeDoesNotWaitForHugeOnes) {
  constexpr int kHuge = 6;
  VolumeLab lab;
  const std::string trash = lab.spawner().data_dir() + "/store/trash";
  for (int i = 0; i < kHuge; ++i) {
    const std::string name = "huge" + std::to_string(i);
    ASSERT_TRUE(lab.Make(name));
    Fill(lab.PathOf(name), 50'000);
  }
  ASSERT_TRUE(lab.Make("small"));
  Fill(lab.PathOf("small"), 50);
  for (int i = 0; i < kHuge; ++i) ASSERT_TRUE(lab.Remove("huge" + std::to_string(i)));
  const auto huge = Names(trash);
  ASSERT_FALSE(huge.empty()) << "too small to wait for";
  ASSERT_TRUE(lab.Remove("small"));
  std::vector<std::string> left;
  ASSERT_TRUE(Until([&] {
    left = Names(trash);
    return std::all_of(left.begin(), left.end(), [&](const std::string& name) {
      return std::find(huge.begin(), huge.end(), name) != huge.end();
    });
  }));
  // The janitor may have finished one of the huge trees at that moment.
  EXPECT_GE(left.size() + 1, huge.size()) << "the small one has waited for others";
  EXPECT_TRUE(Until([&] { return Names(trash).empty(); }));
}

// A slot waits only for its own trash. Other slots are not held up.
PRIV_TEST(Trash, ASlotWaitsForItsOwnOnly) {
  SpawnerFixture spawner;
  auto sandbox = spawner.Build(1);
  ASSERT_TRUE(sandbox);
  SpawnerFixture::Claim(*sandbox, "echo x >/file; echo; exec busybox sleep 1000");
  char line = 0;
  ASSERT_EQ(::read(sandbox->control.get(), &line, 1), 1);
  const auto file = sys::Open(spawner.data_dir() + "/store/fs/uppers/s1/upper/file", O_RDONLY);
  ASSERT_TRUE(file) << file.error().message();
  // An immutable file holds up the janitor like a million files.
  int flags = 0;
  ASSERT_EQ(::ioctl(file->get(), FS_IOC_GETFLAGS, &flags), 0);
  flags |= FS_IMMUTABLE_FL;
  ASSERT_EQ(::ioctl(file->get(), FS_IOC_SETFLAGS, &flags), 0);
  EXPECT_TRUE(spawner.Destroy(sandbox->plan.id));
  for (int i = 0; i < 3; ++i) {
    const Status again = spawner.TryPrepare(1);
    EXPECT_FALSE(again);
    if (!again) {
      EXPECT_EQ(CodeName(again.error().code()), CodeName(Code::kFailedPrecondition));
    }
  }
  EXPECT_EQ(spawner.Run("echo other", 2), "other\n");
  flags &= ~FS_IMMUTABLE_FL;
  ASSERT_EQ(::ioctl(file->get(), FS_IOC_SETFLAGS, &flags), 0);
  EXPECT_EQ(spawner.Run("echo other", 2), "other\n");  // its end makes the janitor try again
  EXPECT_EQ(spawner.Run("echo again", 1), "again\n");
}

pid_t JanitorOf(pid_t spawner) {
  const std::string path =
      "/proc/" + std::to_string(spawner) + "/task/" + std::to_string(spawner) + "/children";
  const auto children = sys::ReadFileAt(AT_FDCWD, path, 1 << 16);
  std::istringstream list(children ? *children : "");
  for (pid_t pid = 0; list >> pid;) {
    const auto name = sys::ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/comm", 64);
    if (name && *name == "atoll-janitor\n") return pid;
  }
  return 0;
}

// A host that is out of processes must not end the janitor, which would be started again and again.
PRIV_TEST(Trash, IsEmptiedWithoutThreadsToo) {
  constexpr uid_t kOther = 65'533;  // root is exempt from RLIMIT_NPROC
  std::string top = fs::temp_directory_path() / "trash.XXXXXX";
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  ASSERT_EQ(::chown(top.c_str(), kOther, kOther), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0 || ::setresgid(kOther, kOther, kOther) != 0 ||
        ::setresuid(kOther, kOther, kOther) != 0) {
      ::_exit(2);
    }
    fs::create_directories(top + "/tree/below");
    std::ofstream(top + "/tree/below/file") << "x";
    std::ofstream(top + "/tree.more") << "x";
    const auto directory = sys::Open(top, O_RDONLY | O_DIRECTORY);
    if (!directory) ::_exit(3);
    spawner::Trash trash(directory->get(), 4);
    trash.Look();
    trash.Finish();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Names(top), std::vector<std::string>());
  fs::remove_all(top);
}

// The daemon notices the spawner's death by the end of its connection, and an execd in a slot
// notices it by the end of its gate. A copy of either in the janitor would hide the death.
PRIV_TEST(Trash, AJanitorThatIsReplacedHoldsNothingOfTheSpawners) {
  VolumeLab lab;
  ASSERT_TRUE(lab.spawner().Prepare(7));
  pid_t first = 0;
  ASSERT_TRUE(Until([&] { return (first = JanitorOf(lab.spawner().pid())) != 0; }));
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  pid_t second = 0;
  ASSERT_TRUE(Until([&] {
    second = JanitorOf(lab.spawner().pid());
    return second != 0 && second != first;
  }));
  // The new janitor does its work.
  ASSERT_TRUE(lab.Make("data") && lab.Remove("data"));
  const std::string trash = lab.spawner().data_dir() + "/store/trash";
  ASSERT_TRUE(Until([&] { return Names(trash).empty(); }));
  const std::string directory = "/proc/" + std::to_string(second) + "/fd";
  for (const std::string& name : Names(directory)) {
    std::error_code gone;
    const fs::path target = fs::read_symlink(directory + "/" + name, gone);
    if (gone || std::stoi(name) < 3) continue;
    const bool own = target.string().starts_with("pipe:") || target.filename() == "trash";
    EXPECT_TRUE(own) << name << " is " << target;
  }
}

}  // namespace
}  // namespace atl::priv
