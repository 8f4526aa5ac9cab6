// B4 (CVE-2021-30465): a sandbox that shares a volume swaps, in a loop, the source or the target of
// a mount that a build is about to make. The swapper is a process of ours that does what the
// sandbox could do to its side of the volume.

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"
#include "tests/priv/spawner_volume_lab.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

// Counts the rounds of a race: a fixed number, and then more until both outcomes have been seen. On
// a busy machine the swapper may get no CPU time for a while.
class Rounds {
 public:
  explicit Rounds(int least) : least_(least), until_us_(SystemClock().BootMicros() + kPatienceUs) {}
  bool Go(int done, int one, int other) const {
    if (done < least_) return true;
    return (one == 0 || other == 0) && SystemClock().BootMicros() < until_us_;
  }

 private:
  static constexpr int64_t kPatienceUs = 15 * 1000 * 1000;
  const int least_;
  const int64_t until_us_;
};

// Exchanges pairs of names in a loop until it is destroyed.
class Swapper {
 public:
  explicit Swapper(const std::vector<std::pair<std::string, std::string>>& pairs) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (;;) {
      for (const auto& [a, b] : pairs) {
        ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
      }
    }
  }
  ~Swapper() {
    ::kill(pid_, SIGKILL);
    int status;
    ::waitpid(pid_, &status, 0);
  }
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;

 private:
  pid_t pid_ = -1;
};

constexpr int kRounds = 60;

// The build is refused or mounts the volume's own directory, never anything else. Both outcomes
// must be seen, or the swapper was not at work.
PRIV_TEST(VolumeRace, SubPathBecomesALink) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  const std::string volume = lab.PathOf("data");
  fs::create_directories(volume + "/a/sub");
  std::ofstream(volume + "/a/sub/mark") << "mine\n";
  std::ofstream(volume + "/a/mark") << "mine\n";
  fs::create_directory_symlink(lab.outside(), volume + "/a.link");
  fs::create_directory_symlink("../../../../../" + lab.outside(), volume + "/a/sub.link");
  std::ofstream(lab.outside() + "/mark") << "escaped\n";
  fs::create_directories(lab.outside() + "/sub");
  std::ofstream(lab.outside() + "/sub/mark") << "escaped\n";
  int mounted = 0, refused = 0;
  const Swapper swapper(
      {{volume + "/a", volume + "/a.link"}, {volume + "/a/sub", volume + "/a/sub.link"}});
  int i = 0;
  for (const Rounds rounds(kRounds); rounds.Go(i, mounted, refused); ++i) {
    const std::string result =
        lab.Run({VolumeLab::Sub(VolumeLab::Named("data"), i % 2 == 0 ? "a/sub" : "a")},
                "$B cat /mnt/v/mark");
    ASSERT_EQ(result.find("escaped"), std::string::npos) << result;
    mounted += result == "mine\n" ? 1 : 0;
    refused += result.starts_with("(step volumes") ? 1 : 0;
  }
  EXPECT_EQ(mounted + refused, i);
  EXPECT_GT(mounted, 0);
  EXPECT_GT(refused, 0);
}

// The same for a directory that a build would create: none may appear outside.
PRIV_TEST(VolumeRace, MissingSubPathIsMadeInsideOnly) {
  VolumeLab lab;
  const std::string top = lab.allowed();
  fs::create_directories(top + "/a");
  ASSERT_EQ(::chown((top + "/a").c_str(), kAlice, kAlice), 0);
  fs::create_directory_symlink(lab.outside(), top + "/a.link");
  int refused = 0;
  {
    const Swapper swapper({{top + "/a", top + "/a.link"}});
    int made = 0;
    const Rounds rounds(20 * kRounds);
    for (int i = 0; rounds.Go(i, made, refused); ++i) {
      const Status checked =
          lab.Check(VolumeLab::Host(top + "/a/new" + std::to_string(i) + "/deep"));
      ++(checked ? made : refused);
    }
    EXPECT_GT(made, 0);
  }
  EXPECT_GT(refused, 0);
  for (const auto& entry : fs::directory_iterator(lab.outside())) {
    EXPECT_EQ(entry.path().filename(), "secret");
  }
}

// The target of one volume lies in another, shared volume: runc's hole of 2021.
PRIV_TEST(VolumeRace, TargetInASharedVolumeBecomesALink) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("shared"));
  ASSERT_TRUE(lab.Make("second"));
  std::ofstream(lab.PathOf("second") + "/mark") << "second\n";
  const std::string shared = lab.PathOf("shared");
  fs::create_directories(shared + "/t");
  fs::create_directory_symlink("/proc", shared + "/t.link");
  fs::create_directories(shared + "/u");
  fs::create_directory_symlink("/", shared + "/u.link");
  int mounted = 0, refused = 0;
  const Swapper swapper({{shared + "/t", shared + "/t.link"}, {shared + "/u", shared + "/u.link"}});
  const Rounds rounds(kRounds);
  for (int i = 0; rounds.Go(i, mounted, refused); ++i) {
    const std::string result = lab.Run(
        {VolumeLab::Named("shared", "/v"),
         VolumeLab::Named("second", i % 2 == 0 ? "/v/t" : "/v/u")},
        "$B awk '$5 ~ /^\\/(v|$)/ {print $5}' /proc/self/mountinfo | $B sort | $B tr '\\n' ' '");
    // The mount is where its target was when the spawner made it, under either name.
    const bool inside = result.starts_with("/ /v /v/");
    mounted += inside ? 1 : 0;
    refused += result.starts_with("(step volumes") ? 1 : 0;
    ASSERT_TRUE(inside || result.starts_with("(step volumes")) << result;
  }
  EXPECT_GT(mounted, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace atl::priv
