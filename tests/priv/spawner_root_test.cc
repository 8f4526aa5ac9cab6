// Hostile images: they put links and files in the places where the spawner mounts.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "runtime/spawner/rules/config.h"
#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

// Puts layer 2, filled by `fill`, on top of the busybox layer. Returns the output of `script`, or
// the build's error.
std::string RunWithLayer(const std::function<void(const fs::path&)>& fill,
                         const std::string& script) {
  SpawnerFixture spawner;
  const fs::path layer = spawner.data_dir() + "/store/fs/layers/2";
  fs::create_directories(layer);
  fill(layer);
  for (const auto& entry : fs::recursive_directory_iterator(layer)) Own(entry.path());
  Own(layer);
  EXPECT_TRUE(spawner.Prepare(1));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.layers = {2, 1};
  auto sandbox = spawner.Build(plan);
  if (!sandbox) return sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, script);
  std::string output = SpawnerFixture::ReadToEnd(sandbox->control.get());
  EXPECT_TRUE(spawner.Destroy(plan.id));
  return output;
}

// B3, and B1's sibling: /dev, /proc, /sys as links to places of the image's choice.
PRIV_TEST(HostileImage, MountTargetsMayNotBeLinks) {
  for (const char* name : {"dev", "proc", "sys"}) {
    const std::string result = RunWithLayer(
        [&](const fs::path& layer) {
          fs::create_directories(layer / "elsewhere");
          fs::create_directory_symlink("elsewhere", layer / name);
        },
        "echo built");
    EXPECT_NE(result.find(std::string("the image's /") + name + " is not a directory"),
              std::string::npos)
        << result;
  }
}

PRIV_TEST(HostileImage, MountTargetsMayNotBeFiles) {
  const std::string result = RunWithLayer(
      [](const fs::path& layer) { std::ofstream(layer / "proc") << "x"; }, "echo built");
  EXPECT_NE(result.find("the image's /proc is not a directory"), std::string::npos) << result;
}

// B1: the spawner masks files with its own /dev/null, not with the image's.
PRIV_TEST(HostileImage, OwnDevNullIsNotUsedForMasks) {
  EXPECT_EQ(RunWithLayer(
                [](const fs::path& layer) {
                  fs::create_directories(layer / "dev");
                  fs::create_symlink("/proc/sys/kernel/core_pattern", layer / "dev/null");
                },
                "B=/bin/busybox; $B stat -c '%F %t:%T' /dev/null /proc/kallsyms; "
                "/bin/attack core-pattern"),
            "character special file 1:3\ncharacter special file 1:3\ncore-pattern: EACCES\n");
}

// The spawner replaces a link at /etc/resolv.conf and never follows it.
PRIV_TEST(HostileImage, LinksInEtcAreReplaced) {
  EXPECT_EQ(RunWithLayer(
                [](const fs::path& layer) {
                  fs::create_directories(layer / "etc");
                  fs::create_symlink("/bin/busybox", layer / "etc/hosts");
                  fs::create_symlink("../run/stub/resolv.conf", layer / "etc/resolv.conf");
                },
                "B=/bin/busybox; $B cat /etc/resolv.conf /etc/hosts; "
                "$B test -L /etc/hosts || echo file"),
            "nameserver 10.200.255.254\n127.0.0.1 localhost\nfile\n");
}

// The slot's own tree, which contains the store of all sandboxes, is out of reach for good. The
// sandbox sees no mount of it and no mount stacked on its root, and has no way up to it.
PRIV_TEST(SandboxRoot, NothingOfTheSlotIsLeft) {
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.Run("B=/bin/busybox; $B awk '{print $5}' /proc/1/mountinfo | "
                        "$B grep -v -e ^/proc/ -e ^/sys/ | $B sort; "
                        "$B ls -A /../ /proc/1/root/../ /proc/1/cwd/../ | $B grep -e store -e own"),
            "/\n/dev\n/dev/mqueue\n/dev/pts\n/dev/shm\n/proc\n/sys\n");
}

// A parked sandbox takes the limits that a build would have given it.
PRIV_TEST(SandboxRoot, AParkedOneTakesOtherLimits) {
  const std::string look =
      "B=/bin/busybox; $B cat /sys/devices/system/cpu/online; $B df -k /dev/shm | "
      "$B awk 'NR == 2 {print $2}'; ulimit -n; echo x 2>/dev/null "
      ">/sys/devices/system/cpu/online || echo read-only; "
      "$B grep -c ' /sys/devices/system/cpu/online ' /proc/1/mountinfo";
  SpawnerFixture spawner;
  const auto seen = [&](const cgroup::Limits& built, std::optional<cgroup::Limits> changed) {
    wire::Plan plan = SpawnerFixture::PlanFor(1);
    plan.limits = built;
    EXPECT_TRUE(spawner.Prepare(1));
    auto sandbox = spawner.Build(plan);
    if (!sandbox) return sandbox.error().message();
    if (changed) {
      std::optional<Status> answer;
      spawner.client().Ask(wire::ChangeLimits{plan.id, *changed},
                           [&](Status done) { answer = std::move(done); });
      EXPECT_TRUE(spawner.loop().RunUntil([&] { return answer.has_value(); }));
      if (!*answer) return answer->error().message();
    }
    SpawnerFixture::Claim(*sandbox, look);
    std::string said = SpawnerFixture::ReadToEnd(sandbox->control.get());
    EXPECT_TRUE(spawner.Destroy(plan.id));
    return said;
  };
  const cgroup::Limits usual = SpawnerFixture::DefaultLimits();
  cgroup::Limits large = usual;
  large.cpu_millis = 1'000'000;
  large.shm_bytes = 8 << 20;
  large.nofile = 777;
  const std::string small = seen(usual, std::nullopt);
  EXPECT_TRUE(small.starts_with("0\n65536\n")) << small;
  EXPECT_TRUE(small.ends_with("read-only\n1\n")) << small;
  const std::string built = seen(large, std::nullopt);
  EXPECT_NE(built.find("\n8192\n777\n"), std::string::npos) << built;
  EXPECT_EQ(seen(usual, large), built);
  large.nofile = 0;
  EXPECT_EQ(seen(large, usual), small);
}

// An image's /etc that is a link or a file does not interfere with ours, which covers it.
PRIV_TEST(HostileImage, EtcThatIsNoDirectoryIsCovered) {
  const std::string look =
      "B=/bin/busybox; $B ls -A /etc; echo x > /etc/hosts && $B cat /etc/hosts";
  const std::string expected = "hostname\nhosts\nresolv.conf\nx\n";
  EXPECT_EQ(
      RunWithLayer(
          [](const fs::path& layer) { fs::create_directory_symlink("/proc/sys", layer / "etc"); },
          look),
      expected);
  EXPECT_EQ(RunWithLayer([](const fs::path& layer) { std::ofstream(layer / "etc") << "x"; }, look),
            expected);
}

// B7: the root is mounted with nodev.
PRIV_TEST(HostileImage, DeviceNodesOfALayerDoNotOpen) {
  EXPECT_EQ(RunWithLayer(
                [](const fs::path& layer) {
                  ASSERT_EQ(::mknod((layer / "null").c_str(), S_IFCHR | 0666, 0x103), 0);
                },
                "echo x > /null || echo refused"),
            "sh: can't create /null: Permission denied\nrefused\n");
}

PRIV_TEST(HostileImage, ReadonlyRootIsReadonly) {
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.Prepare(1));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.readonly_root = true;
  auto sandbox = spawner.Build(plan);
  ASSERT_TRUE(sandbox) << sandbox.error().message();
  SpawnerFixture::Claim(*sandbox, "/bin/busybox touch /x 2>/dev/null || echo refused");
  EXPECT_EQ(SpawnerFixture::ReadToEnd(sandbox->control.get()), "refused\n");
}

}  // namespace
}  // namespace atl::priv
