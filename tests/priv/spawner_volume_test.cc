// Volumes as the spawner mounts them: what it refuses, what a sandbox can do with them, and what
// remains on the host.

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <optional>
#include <thread>

#include "runtime/base/sys.h"
#include "tests/priv/spawner_volume_lab.h"

namespace atl::priv {
namespace {

namespace fs = std::filesystem;

std::string OwnerOf(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return "absent";
  return std::to_string(info.st_uid) + ":" + std::to_string(info.st_gid);
}

std::string Reserved(uid_t id) {
  const std::string number = std::to_string(spawner::kStoreIdBase + id);
  return number + ":" + number;
}

std::string Contents(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, 1 << 20);
  return text ? *text : "(" + text.error().message() + ")";
}

// Checks the code and the text of a refusal.
void ExpectRefused(const Status& status, Code code, const std::string& text) {
  ASSERT_FALSE(status) << "allowed, expected: " << text;
  EXPECT_EQ(CodeName(status.error().code()), CodeName(code)) << status.error().message();
  EXPECT_NE(status.error().message().find(text), std::string::npos) << status.error().message();
}

PRIV_TEST(Volume, NamedOneIsSharedAndKept) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  EXPECT_EQ(lab.Run({VolumeLab::Named("data")},
                    "cd /mnt/v; $B id -u; echo one > a; $B mkdir d; $B touch d/f; "
                    "$B chown 1000:1001 d/f; $B stat -c '%u:%g' . a d/f"),
            "0\n0:0\n0:0\n1000:1001\n");
  // The files on disk belong to reserved ids, which no user of the host has, whatever the slot's
  // ids were.
  const std::string path = lab.PathOf("data");
  EXPECT_EQ(OwnerOf(path + "/a"), Reserved(0));
  EXPECT_EQ(OwnerOf(path + "/d/f"), std::to_string(spawner::kStoreIdBase + 1000) + ":" +
                                        std::to_string(spawner::kStoreIdBase + 1001));
  EXPECT_EQ(lab.Run({VolumeLab::Named("data", "/other")}, "$B cat /other/a; echo two >> /other/a"),
            "one\n");
  EXPECT_EQ(Contents(path + "/a"), "one\ntwo\n");
}

PRIV_TEST(Volume, NamedOneThatIsMissingOrTaken) {
  VolumeLab lab;
  EXPECT_NE(lab.Run({VolumeLab::Named("none")}, "echo ran").find("volume 'none' does not exist"),
            std::string::npos);
  ASSERT_TRUE(lab.Make("data"));
  std::ofstream(lab.PathOf("data") + "/kept") << "x";
  const Status again = lab.Make("data");
  ASSERT_FALSE(again);
  EXPECT_EQ(CodeName(again.error().code()), CodeName(Code::kAlreadyExists));
  EXPECT_EQ(Contents(lab.PathOf("data") + "/kept"), "x");
  for (const char* name : {"", ".", "..", "a/b", "../uppers", "A", "-a"}) {
    EXPECT_FALSE(lab.Make(name)) << name;
    EXPECT_FALSE(lab.Remove(name)) << name;
  }
  EXPECT_TRUE(lab.Remove("data"));
  EXPECT_FALSE(fs::exists(lab.PathOf("data")));
  EXPECT_TRUE(lab.Remove("data")) << "an absent one can be removed";
}

// Id 0 in the sandbox is the owner of the directory. The sandbox's other ids are mapped to nobody.
PRIV_TEST(Volume, HostPathMapsItsOwner) {
  VolumeLab lab;
  std::ofstream(lab.allowed() + "/given") << "hello\n";
  ASSERT_EQ(::chown((lab.allowed() + "/given").c_str(), kAlice, kAlice), 0);
  std::ofstream(lab.allowed() + "/roots") << "root's\n";
  EXPECT_EQ(
      lab.Run({VolumeLab::Host(lab.allowed())},
              "cd /mnt/v; $B cat given; $B stat -c '%u:%g' given roots; "
              "echo x > new; $B touch other; $B chown 1000:1000 other; "
              "$B chown 0 roots 2>/dev/null || echo refused; echo y >> roots || echo refused"),
      "hello\n0:0\n65534:65534\nrefused\nrefused\n");
  EXPECT_EQ(OwnerOf(lab.allowed() + "/new"), "4321:4321");
  EXPECT_EQ(OwnerOf(lab.allowed() + "/other"), Reserved(1000));
  EXPECT_EQ(OwnerOf(lab.allowed() + "/roots"), "0:0");
  EXPECT_EQ(Contents(lab.allowed() + "/roots"), "root's\n");
}

PRIV_TEST(Volume, WritableDirectoryOfRootIsRefused) {
  VolumeLab lab;
  const std::string path = lab.allowed() + "/roots";
  fs::create_directory(path);
  std::ofstream(path + "/f") << "root's\n";
  ExpectRefused(lab.Check(VolumeLab::Host(path)), Code::kPermissionDenied, "chown it to the user");
  EXPECT_NE(lab.Run({VolumeLab::Host(path)}, "echo ran").find("chown it"), std::string::npos);
  EXPECT_EQ(lab.Run({VolumeLab::ReadOnly(VolumeLab::Host(path))},
                    "$B cat /mnt/v/f; echo x > /mnt/v/f || echo refused"),
            "root's\nrefused\n");
  // No new file may belong to root's group either: not by default, not by set-group-ID.
  ASSERT_EQ(::chown(path.c_str(), kAlice, 0), 0);
  EXPECT_EQ(lab.Run({VolumeLab::Host(path)}, "echo x > /mnt/v/new; echo done"), "done\n");
  EXPECT_EQ(OwnerOf(path + "/new"), "4321:" + std::to_string(spawner::kStoreIdBase));
  ASSERT_EQ(::chmod(path.c_str(), 02755), 0);
  ExpectRefused(lab.Check(VolumeLab::Host(path)), Code::kPermissionDenied, "set-group-ID");
}

PRIV_TEST(Volume, OnlyBeneathTheAllowedDirectory) {
  VolumeLab lab;
  const std::string top = lab.allowed();
  fs::create_directory_symlink(lab.outside(), top + "/absolute");
  fs::create_directory_symlink("../outside", top + "/relative");
  fs::create_directory_symlink("/proc/self/root", top + "/magic");
  fs::create_directory_symlink("/proc/self/cwd", top + "/magic-cwd");
  fs::create_directories(top + "/in/side");
  fs::create_directory_symlink("../in", top + "/in/climbs-but-stays");
  for (const std::string& path :
       {lab.outside(), std::string("/etc"), top + "-more", top.substr(0, top.rfind('/')),
        top + "/absolute", top + "/relative", top + "/relative/secret", top + "/magic",
        top + "/magic/etc", top + "/magic-cwd", top + "/absolute/new"}) {
    ExpectRefused(lab.Check(VolumeLab::Host(path)), Code::kPermissionDenied, "host path");
    const std::string built = lab.Run({VolumeLab::Host(path)}, "echo ran");
    EXPECT_NE(built.find("step volumes: host path"), std::string::npos) << path << ": " << built;
  }
  // Paths with dots are refused before they reach the file system.
  for (const std::string& path : {top + "/../outside", top + "/./in", top + "//in", top + "/",
                                  top + "/..", std::string("relative"), std::string("/")}) {
    EXPECT_FALSE(lab.Check(VolumeLab::Host(path))) << path;
  }
  ASSERT_EQ(::chown((top + "/in").c_str(), kAlice, kAlice), 0);
  EXPECT_TRUE(lab.Check(VolumeLab::Host(top + "/in")));
  EXPECT_TRUE(lab.Check(VolumeLab::Host(top + "/in/climbs-but-stays")));
  EXPECT_FALSE(fs::exists(lab.outside() + "/new"));
}

PRIV_TEST(Volume, NothingIsAllowedByDefault) {
  ScratchDir scratch;
  SpawnerFixture spawner;
  ASSERT_TRUE(spawner.Prepare(1));
  wire::Plan plan = SpawnerFixture::PlanFor(1);
  plan.volumes = {VolumeLab::Host(scratch.path().string())};
  const auto built = spawner.Build(plan);
  ASSERT_FALSE(built);
  EXPECT_NE(built.error().message().find("is not beneath a directory that the operator allows"),
            std::string::npos);
}

// The spawner does not follow a link that has replaced an allowed directory.
PRIV_TEST(Volume, AllowedDirectoryItselfIsNoLink) {
  VolumeLab lab;
  fs::rename(lab.allowed(), lab.allowed() + ".old");
  fs::create_directory_symlink(lab.outside(), lab.allowed());
  EXPECT_FALSE(lab.Check(VolumeLab::ReadOnly(VolumeLab::Host(lab.allowed()))));
}

// Our own files cannot be mounted, even if they come to lie in the allowed directory later. The
// refusal leaves no new directory among them.
PRIV_TEST(Volume, OurOwnDirectoriesAreNoVolumes) {
  VolumeLab lab;
  const std::string data = lab.spawner().data_dir();
  const std::string moved = lab.allowed() + "/moved";
  fs::rename(data, moved);
  fs::create_directory_symlink(moved, data);
  for (const std::string& path :
       {lab.allowed(), moved, moved + "/store", moved + "/new", moved + "/store/new/deep"}) {
    ExpectRefused(lab.Check(VolumeLab::ReadOnly(VolumeLab::Host(path))), Code::kPermissionDenied,
                  "Atoll's own files");
    const std::string built = lab.Run({VolumeLab::ReadOnly(VolumeLab::Host(path))}, "echo ran");
    EXPECT_NE(built.find("Atoll's own files"), std::string::npos) << path << ": " << built;
  }
  EXPECT_FALSE(fs::exists(moved + "/new"));
  EXPECT_FALSE(fs::exists(moved + "/store/new"));
  // A directory beside them can be mounted.
  EXPECT_EQ(lab.Run({VolumeLab::Host(lab.allowed() + "/beside")}, "echo x > /mnt/v/f; echo ran"),
            "ran\n");
  fs::remove(data);
  fs::rename(moved, data);
}

// A check creates nothing, so a create that is refused later leaves nothing behind.
PRIV_TEST(Volume, ACheckMakesNothing) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  EXPECT_TRUE(lab.Check(VolumeLab::Host(lab.allowed() + "/new/deep")));
  EXPECT_TRUE(lab.Check(VolumeLab::Sub(VolumeLab::Host(lab.allowed()), "new/sub")));
  EXPECT_TRUE(lab.Check(VolumeLab::Sub(VolumeLab::Named("data"), "new/sub")));
  EXPECT_FALSE(fs::exists(lab.allowed() + "/new"));
  EXPECT_FALSE(fs::exists(lab.PathOf("data") + "/new"));
  fs::create_symlink("nowhere", lab.allowed() + "/dangling");
  ExpectRefused(lab.Check(VolumeLab::Host(lab.allowed() + "/dangling")), Code::kPermissionDenied,
                "by a link");
}

PRIV_TEST(Volume, SubPathStaysInTheVolume) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  const std::string volume = lab.PathOf("data");
  fs::create_directories(volume + "/in/deep");
  std::ofstream(volume + "/in/deep/f") << "deep\n";
  fs::create_directory_symlink("in/deep", volume + "/short");
  fs::create_directory_symlink("/", volume + "/root");
  fs::create_directory_symlink("../..", volume + "/up");
  std::ofstream(volume + "/file") << "one file\n";
  const auto run = [&](const std::string& sub_path, const std::string& script) {
    return lab.Run({VolumeLab::Sub(VolumeLab::Named("data"), sub_path)}, script);
  };
  EXPECT_EQ(run("in/deep", "$B cat /mnt/v/f; $B ls -A /mnt/v/.."), "deep\nv\n");
  EXPECT_EQ(run("short", "$B cat /mnt/v/f"), "deep\n");
  EXPECT_EQ(run("file", "$B cat /mnt/v"), "one file\n");
  for (const char* escape : {"root", "root/etc", "up", "up/store", "up/new", "root/new"}) {
    ExpectRefused(lab.Check(VolumeLab::Sub(VolumeLab::Named("data"), escape)),
                  Code::kInvalidArgument, "leaves the volume by a link");
    EXPECT_NE(run(escape, "echo ran").find("leaves the volume"), std::string::npos);
  }
  ExpectRefused(lab.Check(VolumeLab::Sub(VolumeLab::Named("data"), "file/x")),
                Code::kInvalidArgument, "no directory");
  for (const char* bad : {"..", "../x", "a/../b", "/a", "a/", "a//b", "."}) {
    EXPECT_FALSE(lab.Check(VolumeLab::Sub(VolumeLab::Named("data"), bad))) << bad;
  }
}

PRIV_TEST(Volume, WhatIsMissingIsMadeForTheSandbox) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  EXPECT_EQ(lab.Run({VolumeLab::Sub(VolumeLab::Named("data", "/deep/er/v"), "a/b")},
                    "echo x > /deep/er/v/f; $B stat -c %u:%g:%a /deep /deep/er /deep/er/v"),
            "0:0:755\n0:0:755\n0:0:777\n");
  EXPECT_EQ(Contents(lab.PathOf("data") + "/a/b/f"), "x\n");
  EXPECT_EQ(lab.Run({VolumeLab::Host(lab.allowed() + "/new/dir")},
                    "echo x > /mnt/v/f; $B stat -c %u:%g:%a /mnt/v"),
            "0:0:755\n");
  EXPECT_EQ(OwnerOf(lab.allowed() + "/new"), Reserved(0));
  EXPECT_EQ(OwnerOf(lab.allowed() + "/new/dir/f"), Reserved(0));
  // A single file, mounted onto a new file and onto one of the image.
  const std::string file = lab.allowed() + "/file";
  std::ofstream(file) << "given\n";
  ASSERT_EQ(::chown(file.c_str(), kAlice, kAlice), 0);
  EXPECT_EQ(lab.Run({VolumeLab::Host(file, "/etc/app/conf"), VolumeLab::Host(file, "/etc/hosts")},
                    "$B cat /etc/app/conf /etc/hosts; echo new > /etc/app/conf"),
            "given\ngiven\n");
  EXPECT_EQ(Contents(file), "new\n");
  EXPECT_NE(lab.Run({VolumeLab::Host(file, "/bin")}, "echo ran").find("/bin is a directory"),
            std::string::npos);
  EXPECT_NE(lab.Run({VolumeLab::Named("data", "/bin/busybox")}, "echo ran")
                .find("/bin/busybox is not a directory"),
            std::string::npos);
}

PRIV_TEST(Volume, OthersThanFilesAndDirectoriesAreRefused) {
  VolumeLab lab;
  const std::string top = lab.allowed();
  ASSERT_EQ(::mkfifo((top + "/fifo").c_str(), 0666), 0);
  ASSERT_EQ(::mknod((top + "/null").c_str(), S_IFCHR | 0666, 0x103), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (top + "/socket").c_str(), sizeof address.sun_path - 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const char* name : {"/fifo", "/null", "/socket"}) {
    ExpectRefused(lab.Check(VolumeLab::Host(top + name)), Code::kPermissionDenied,
                  "neither a directory nor a regular file");
  }
}

// B5, and an image that has a link of another name there.
PRIV_TEST(Volume, NoTargetOnProcSysDevOrTheRoot) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  for (const char* target : {"/proc", "/proc/sys", "/proc/self/attr", "/sys", "/sys/fs/cgroup",
                             "/dev", "/dev/shm", "/dev/new"}) {
    EXPECT_NE(lab.Run({VolumeLab::Named("data", target)}, "echo ran")
                  .find("leads to /proc, /sys or /dev"),
              std::string::npos)
        << target;
  }
  for (const char* target : {"/", "", "relative", "/a/..", "/a/../proc", "/./proc", "//proc"}) {
    EXPECT_EQ(lab.Run({VolumeLab::Named("data", target)}, "echo ran").find("ran"),
              std::string::npos)
        << target;
  }
  const fs::path layer = lab.NewLayer();
  fs::create_directory_symlink("/proc/sys", layer / "conf");
  fs::create_directory_symlink("dev", layer / "devices");
  fs::create_directory_symlink("/", layer / "self");
  fs::create_directory_symlink("/proc/1/root/bin", layer / "magic");
  lab.OwnLayer();
  for (const auto& [target, why] :
       std::vector<std::pair<std::string, std::string>>{{"/conf", "leads to /proc"},
                                                        {"/conf/kernel", "leads to /proc"},
                                                        {"/conf/new", "leads to /proc"},
                                                        {"/devices", "leads to /proc"},
                                                        {"/devices/new", "leads to /proc"},
                                                        {"/self", "leads to the root"},
                                                        {"/self/proc/sys", "leads to /proc"},
                                                        {"/magic", "Too many levels"}}) {
    const std::string result = lab.Run({VolumeLab::Named("data", target)}, "echo ran", {2, 1});
    EXPECT_NE(result.find(why), std::string::npos) << target << ": " << result;
  }
}

// A3, B4: a link of the image at the target leads into the sandbox's own root or nowhere.
PRIV_TEST(Volume, LinksOfTheImageLeadIntoItsOwnRoot) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  std::ofstream(lab.PathOf("data") + "/mark") << "volume\n";
  const fs::path layer = lab.NewLayer();
  fs::create_directory_symlink(lab.outside(), layer / "host");
  fs::create_directory_symlink("../../../../../../../" + lab.outside(), layer / "climb");
  fs::create_directory_symlink("/bin", layer / "link");
  fs::create_directories(layer / "a");
  fs::create_symlink("/etc/shadow", layer / "a/file");
  lab.OwnLayer();
  // The same path does not exist in the sandbox's root. A dangling link is an error.
  for (const char* target : {"/host", "/climb", "/host/new", "/a/file"}) {
    const std::string result = lab.Run({VolumeLab::Named("data", target)}, "echo ran", {2, 1});
    EXPECT_NE(result.find("File exists"), std::string::npos) << target << ": " << result;
  }
  EXPECT_EQ(lab.Run({VolumeLab::Named("data", "/link/v")}, "$B cat /bin/v/mark", {2, 1}),
            "volume\n");
  EXPECT_EQ(Contents(lab.outside() + "/secret"), "outside\n");
  EXPECT_FALSE(fs::exists(lab.outside() + "/new"));
}

PRIV_TEST(Volume, OneInAnother) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("outer"));
  ASSERT_TRUE(lab.Make("inner"));
  EXPECT_EQ(lab.Run({VolumeLab::Named("inner", "/v/deep/in"), VolumeLab::Named("outer", "/v")},
                    "echo i > /v/deep/in/f; echo o > /v/f; echo done"),
            "done\n");
  EXPECT_EQ(Contents(lab.PathOf("inner") + "/f"), "i\n");
  EXPECT_EQ(Contents(lab.PathOf("outer") + "/f"), "o\n");
  EXPECT_EQ(OwnerOf(lab.PathOf("outer") + "/deep/in"), Reserved(0));
}

// The sandbox's root user with every capability that it is given.
PRIV_TEST(Volume, ReadOnlyIsTrulySo) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  std::ofstream(lab.PathOf("data") + "/f") << "kept\n";
  ASSERT_EQ(
      ::chown((lab.PathOf("data") + "/f").c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase),
      0);
  ASSERT_EQ(::chown((lab.allowed()).c_str(), kAlice, kAlice), 0);
  std::ofstream(lab.allowed() + "/f") << "kept\n";
  ASSERT_EQ(::chown((lab.allowed() + "/f").c_str(), kAlice, kAlice), 0);
  const std::string script =
      "cd /mnt/v; n=0; for c in 'echo x > f' 'echo x > new' '$B rm f' '$B mkdir d' "
      "'$B chmod 777 f' '$B chown 5 f' '$B mv f g' '$B ln f h' '$B touch f' "
      "'$B mount -o remount,rw /mnt/v' '$B mount -o remount,bind,rw /mnt/v' "
      "'$B umount /mnt/v' '$B mount -t tmpfs none /mnt/v'; do "
      "eval \"$c\" 2>/dev/null && echo \"$c worked\"; n=$((n+1)); done; echo $n; $B cat f; "
      "$B grep -c ' /mnt/v .*ro,nosuid,nodev' /proc/self/mountinfo";
  EXPECT_EQ(lab.Run({VolumeLab::ReadOnly(VolumeLab::Named("data"))}, script), "13\nkept\n1\n");
  EXPECT_EQ(lab.Run({VolumeLab::ReadOnly(VolumeLab::Host(lab.allowed()))}, script),
            "13\nkept\n1\n");
}

// B9, B7: set-user-ID programs and device nodes in a volume do nothing.
PRIV_TEST(Volume, NoSetuidNoDevices) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  const std::string volume = lab.PathOf("data");
  fs::create_directory(volume + "/s");
  fs::copy_file("/bin/busybox", volume + "/s/busybox");
  ASSERT_EQ(::chown((volume + "/s/busybox").c_str(), spawner::kStoreIdBase, spawner::kStoreIdBase),
            0);
  ASSERT_EQ(::chmod((volume + "/s/busybox").c_str(), 04755), 0);
  ASSERT_EQ(::mknod((volume + "/null").c_str(), S_IFCHR | 0666, 0x103), 0);
  EXPECT_EQ(
      lab.Run({VolumeLab::Named("data")},
              "/bin/attack as 1000 /mnt/v/s/busybox id -u; echo x > /mnt/v/null || echo refused; "
              "$B grep -c ' /mnt/v .*nosuid,nodev' /proc/self/mountinfo"),
      "1000\nrefused\n1\n");
}

// B10, with the propagation that systemd sets up. The host sees no mount that a sandbox makes. A
// volume shows mounts that the host makes after the spawner's start.
PRIV_TEST(Volume, TheHostsMountsStayAsTheyAre) {
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr), 0);
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  const std::string disk = lab.allowed() + "/disk";
  fs::create_directory(disk);
  std::ofstream(disk + "/hidden") << "x";
  const std::string source = lab.outside() + "/disk";
  fs::create_directories(source + "/sub");
  ASSERT_EQ(::chown(source.c_str(), kAlice, kAlice), 0);
  ASSERT_EQ(::mount(source.c_str(), disk.c_str(), nullptr, MS_BIND, nullptr), 0);
  const std::string before = Contents("/proc/self/mountinfo");
  ASSERT_FALSE(before.empty());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(lab.Run({VolumeLab::Host(disk), VolumeLab::Named("data", "/mnt/v/sub"),
                       VolumeLab::ReadOnly(VolumeLab::Host(lab.allowed(), "/w"))},
                      "$B ls /mnt/v; $B ls /w/disk; $B grep -c -e shared: -e master: "
                      "/proc/self/mountinfo"),
              "sub\nsub\n0\n");
  }
  EXPECT_EQ(Contents("/proc/self/mountinfo"), before);
  ASSERT_EQ(::umount2(disk.c_str(), 0), 0) << "something of ours still holds it";
}

// A mount below the directory that cannot be id-mapped would show the host's ids, so the spawner
// refuses the whole volume.
PRIV_TEST(Volume, WhatCannotBeMappedIsRefused) {
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  VolumeLab lab;
  fs::create_directory(lab.allowed() + "/p");
  ASSERT_EQ(::mount("proc", (lab.allowed() + "/p").c_str(), "proc", 0, nullptr), 0);
  const std::string result =
      lab.Run({VolumeLab::ReadOnly(VolumeLab::Host(lab.allowed()))}, "echo ran");
  EXPECT_NE(result.find("cannot be id-mapped"), std::string::npos) << result;
  ASSERT_EQ(::umount2((lab.allowed() + "/p").c_str(), MNT_DETACH), 0);
}

// The copy of a mount tree leaves out an unbindable mount. The sandbox would see what that mount
// hides.
PRIV_TEST(Volume, WhatWouldBeLeftOutIsRefused) {
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  VolumeLab lab;
  const std::string hides = lab.allowed() + "/a b/hides";
  fs::create_directories(hides);
  ASSERT_EQ(::chown((lab.allowed() + "/a b").c_str(), kAlice, kAlice), 0);
  ASSERT_EQ(::mount("none", hides.c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, hides.c_str(), nullptr, MS_UNBINDABLE, nullptr), 0);
  const std::string result = lab.Run({VolumeLab::Host(lab.allowed() + "/a b")}, "echo ran");
  EXPECT_NE(result.find(hides + " is unbindable"), std::string::npos) << result;
  ASSERT_EQ(::mount(nullptr, hides.c_str(), nullptr, MS_PRIVATE, nullptr), 0);
  EXPECT_EQ(lab.Run({VolumeLab::Host(lab.allowed() + "/a b")}, "echo ran"), "ran\n");
  ASSERT_EQ(::umount2(hides.c_str(), MNT_DETACH), 0);
}

// A FUSE file system whose server answers the first request and nothing after it. A process that
// waits for it cannot even be killed.
class SilentServer {
 public:
  explicit SilentServer(const std::string& place) : place_(place) {
    device_ = std::move(*sys::Open("/dev/fuse", O_RDWR));
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    EXPECT_EQ(::mount("silent", place.c_str(), "fuse", 0, options.c_str()), 0);
    server_ = std::thread([device = device_.get()] { Serve(device); });
  }
  ~SilentServer() {
    // Ends all waiting processes.
    EXPECT_EQ(::umount2(place_.c_str(), MNT_FORCE | MNT_DETACH), 0);
    server_.join();
  }

 private:
  static void Serve(int device) {
    alignas(fuse_in_header) char request[FUSE_MIN_READ_BUFFER + 4096];
    while (::read(device, request, sizeof request) > 0) {
      fuse_in_header asked;
      std::memcpy(&asked, request, sizeof asked);
      if (asked.opcode != FUSE_INIT) continue;
      struct {
        fuse_out_header header;
        fuse_init_out init;
      } answer{};
      answer.header.len = sizeof answer;
      answer.header.unique = asked.unique;
      answer.init.major = FUSE_KERNEL_VERSION;
      answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
      answer.init.max_write = 4096;
      EXPECT_EQ(::write(device, &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
    }
  }

  const std::string place_;
  UniqueFd device_;
  std::thread server_;
};

PRIV_TEST(Volume, AServerThatAnswersNothingHoldsNobodyUp) {
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  VolumeLab lab;
  const std::string place = lab.allowed() + "/silent";
  fs::create_directory(place);
  ASSERT_TRUE(lab.Make("named"));
  auto silent = std::make_optional<SilentServer>(place);
  std::vector<Status> answers;
  lab.spawner().client().Ask(wire::CheckVolume{VolumeLab::Host(place + "/one")},
                             [&](const Status& checked) { answers.push_back(checked); });
  ASSERT_TRUE(lab.spawner().Prepare(2));
  wire::Plan plan = SpawnerFixture::PlanFor(2);
  plan.volumes = {VolumeLab::Named("named"), VolumeLab::Host(place + "/two", "/mnt/w")};
  lab.spawner().client().Ask(wire::Build{plan}, [&](const Result<wire::Built>& built) {
    answers.push_back(built ? Status() : Fail(built.error()));
  });
  EXPECT_EQ(lab.Run({}, "echo ran"), "ran\n");
  EXPECT_EQ(lab.Run({VolumeLab::Named("named")}, "echo x >/mnt/v/f; $B cat /mnt/v/f"), "x\n");
  ASSERT_TRUE(lab.spawner().loop().RunUntil([&] { return answers.size() == 2; }, 60'000));
  for (const Status& answer : answers) {
    ExpectRefused(answer, Code::kUnavailable, lab.allowed() + "', or one mounted beneath it");
  }
  // Two processes wait for it already. No third one does.
  ExpectRefused(lab.Check(VolumeLab::Host(place + "/three")), Code::kUnavailable,
                "has stopped answering");
  silent.reset();
  EXPECT_TRUE(lab.spawner().loop().RunUntil(
      [&] { return lab.Check(VolumeLab::Host(place + "/four")).has_value(); }));
  // The slot of the build that was given up can be used again.
  EXPECT_EQ(lab.spawner().Run("echo again", 2), "again\n");
}

PRIV_TEST(Volume, UseIsCounted) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  EXPECT_EQ(lab.Run({VolumeLab::Named("data")},
                    "cd /mnt/v; $B mkdir d; $B dd if=/dev/zero of=d/f bs=64k count=4 2>/dev/null; "
                    "$B ln d/f d/g; $B ln -s / root; echo done"),
            "done\n");
  const auto count = [&](const std::string& name) {
    Result<wire::DiskUse> use = Fail(Code::kDeadlineExceeded, "no answer");
    bool answered = false;
    lab.spawner().client().Ask(wire::MeasureVolume{name}, [&](Result<wire::DiskUse> result) {
      answered = true;
      use = std::move(result);
    });
    lab.spawner().loop().RunUntil([&] { return answered; });
    return use;
  };
  const auto use = count("data");
  ASSERT_TRUE(use) << use.error().message();
  EXPECT_EQ(use->entries, 4U);
  EXPECT_TRUE(use->complete);
  EXPECT_GE(use->bytes, 256U << 10);
  EXPECT_LE(use->bytes, (256U << 10) + (64U << 10));
  EXPECT_FALSE(count("none"));
}

// 64 volumes at once. The spawner keeps no descriptor of them.
PRIV_TEST(Volume, NoDescriptorIsLeft) {
  VolumeLab lab;
  ASSERT_TRUE(lab.Make("data"));
  const auto descriptors = [&] {
    return std::distance(
        fs::directory_iterator("/proc/" + std::to_string(lab.spawner().pid()) + "/fd"), {});
  };
  std::vector<wire::Volume> many;
  for (size_t i = 0; i < wire::kMaxVolumes; ++i) {
    many.push_back(VolumeLab::Named("data", "/v/" + std::to_string(i)));
  }
  EXPECT_EQ(lab.Run(many, "$B ls /v | $B wc -l"), "64\n");
  const auto before = descriptors();
  EXPECT_EQ(lab.Run(many, "$B ls /v | $B wc -l"), "64\n");
  many.back() = VolumeLab::Named("none");
  EXPECT_NE(lab.Run(many, "echo ran").find("does not exist"), std::string::npos);
  many.back() = VolumeLab::Named("data", "/proc/x");
  EXPECT_NE(lab.Run(many, "echo ran").find("leads to /proc"), std::string::npos);
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace atl::priv
