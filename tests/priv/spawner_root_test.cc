// Hostile images: they put links and files in the places where the spawner mounts.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
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
