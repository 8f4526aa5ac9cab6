// Honest layers through the real atoll-unpack, read back through a real overlay mount.
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "images/digest.h"
#include "images/oci_layout.h"
#include "tests/priv/unpack_fixture.h"
#include "tests/unit/images/gzip.h"
#include "tests/unit/images/tar_builder.h"

namespace atl::images {
namespace {

using ImagesUnpack = UnpackFixture;

TEST_F(ImagesUnpack, WritesEveryKindOfEntryWithItsAttributes) {
  const std::string tar =
      TarBuilder()
          .Dir("./")
          .Dir("bin")
          .Add({.name = "bin/su", .content = "elf", .mode = 04755, .uid = 0, .gid = 5})
          .Add({.type = '5', .name = "home", .mode = 02770, .uid = 1000, .gid = 65535})
          .File("home/f", "hello")
          .Symlink("lib", "usr/lib")
          .Symlink("abs", "/etc/passwd")
          .HardLink("bin/su2", "./bin/su")
          .HardLink("abs2", "abs")
          .Add({.type = '6', .name = "pipe", .mode = 0622})
          .Add({.type = '3', .name = "dev/null", .major = 1, .minor = 3})
          .File("deep/er/still/f", "x")
          .Finish();
  const UnpackReport report = Extract(tar, "l1");
  EXPECT_EQ(report.skipped_devices, 1U);
  EXPECT_FALSE(report.opaque_root);
  EXPECT_EQ(report.bytes, 3U + 5U + 1U);

  const struct stat su = Stat("l1/bin/su");
  EXPECT_EQ(su.st_mode, S_IFREG | 04755U);
  EXPECT_EQ(su.st_uid, kLayerIdBase);
  EXPECT_EQ(su.st_gid, kLayerIdBase + 5);
  EXPECT_EQ(su.st_mtime, 1'600'000'000);
  EXPECT_EQ(su.st_nlink, 2U);
  EXPECT_EQ(su.st_ino, Stat("l1/bin/su2").st_ino);
  EXPECT_EQ(Stat("l1/abs").st_ino, Stat("l1/abs2").st_ino);
  const struct stat home = Stat("l1/home");
  EXPECT_EQ(home.st_mode, S_IFDIR | 02770U);
  EXPECT_EQ(home.st_uid, kLayerIdBase + 1000);
  EXPECT_EQ(home.st_gid, kLayerIdBase + 65535);
  EXPECT_EQ(home.st_mtime, 1'600'000'000) << "files written into it later must not show";
  EXPECT_TRUE(S_ISLNK(Stat("l1/abs").st_mode));
  EXPECT_EQ(std::filesystem::read_symlink(Path("l1/abs")), "/etc/passwd");
  EXPECT_EQ(Stat("l1/pipe").st_mode, S_IFIFO | 0622U);
  EXPECT_EQ(Stat("l1/deep/er").st_mode, S_IFDIR | 0755U);
  EXPECT_EQ(Stat("l1/deep/er").st_uid, kLayerIdBase);
  EXPECT_FALSE(Exists("l1/dev/null"));
}

TEST_F(ImagesUnpack, KeepsUserXattrsAndCapabilitiesDropsTheRest) {
  const std::string capability("\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  const UnpackReport report =
      Extract(TarBuilder()
                  .Add({.name = "ping",
                        .content = "elf",
                        .mode = 0755,
                        .uid = 7,
                        .pax = {{"SCHILY.xattr.user.note", "kept"},
                                {"SCHILY.xattr.security.capability", capability},
                                {"SCHILY.xattr.security.selinux", "system_u"},
                                {"SCHILY.xattr.trusted.other", "x"}}})
                  .Finish(),
              "l1");
  EXPECT_EQ(report.dropped_xattrs, 2U);
  char value[64];
  const std::string path = Path("l1/ping");
  ASSERT_EQ(getxattr(path.c_str(), "user.note", value, sizeof value), 4);
  // Revision 3 binds the capability to the range's root: no effect on the host, effective in a
  // sandbox.
  ASSERT_EQ(getxattr(path.c_str(), "security.capability", value, sizeof value), 24);
  EXPECT_EQ(value[3], 3);
  unsigned root = 0;
  memcpy(&root, value + 20, 4);
  EXPECT_EQ(root, kLayerIdBase);
  EXPECT_LT(getxattr(path.c_str(), "security.selinux", value, sizeof value), 0);
}

// Go writes names into PAX headers without any encoding.
TEST_F(ImagesUnpack, NamesNeedNotBeUtf8) {
  const std::string name = "caf\xe9";
  Extract(TarBuilder()
              .File(name, "ustar")
              .LongName(name + "-gnu")
              .File("f", "gnu")
              .Add({.name = "f", .content = "pax", .pax = {{"path", name + "-pax/file"}}})
              .Add({.type = '2', .name = "soft", .link = "f", .pax = {{"linkpath", name}}})
              .Add({.type = '1', .name = "hard", .link = "f", .pax = {{"linkpath", name}}})
              .Add({.name = "owned", .content = "x", .pax = {{"uname", name}, {"gname", name}}})
              .Finish(),
          "l1");
  EXPECT_EQ(Read(Path("l1/" + name)), "ustar");
  EXPECT_EQ(Read(Path("l1/" + name + "-gnu")), "gnu");
  EXPECT_EQ(Read(Path("l1/" + name + "-pax/file")), "pax");
  EXPECT_EQ(std::filesystem::read_symlink(Path("l1/soft")), name);
  EXPECT_EQ(Stat("l1/hard").st_ino, Stat("l1/" + name).st_ino);
  EXPECT_TRUE(Exists("l1/owned"));
  // libarchive loses such a target if the header has none. The unpacker must not make a file of it.
  Refuses("layer",
          TarBuilder()
              .File(name, "x")
              .Add({.type = '1', .name = "hard", .pax = {{"linkpath", name}}})
              .Finish(),
          "an entry of unknown type");
}

// The deepest tree that a sandbox can make. Packing reads it again for its digest.
TEST_F(ImagesUnpack, TakesTreesOf256Levels) {
  std::string deep;
  TarBuilder tar;
  for (int i = 0; i < 256; ++i) {
    deep += "d/";
    tar.LongName(deep).Dir("d");
  }
  tar.LongName(deep + "f").File("f", "deep");
  tar.LongName(deep + ".wh..wh..opq").File("f", "");
  tar.LongName(deep + ".wh." + std::string(255, 'w')).File("f", "");
  EXPECT_FALSE(Extract(tar.Finish(), "l1").content.empty());
  EXPECT_EQ(Read(Path("l1/" + deep + "f")), "deep");
  EXPECT_EQ(Stat("l1/" + deep + std::string(255, 'w')).st_rdev, 0U);
}

TEST_F(ImagesUnpack, ReadsEveryCompressionOfPeoplesArchives) {
  const std::string tar = TarBuilder().File("a", "content").Finish();
  for (const char* with : {"gzip", "zstd", "xz", "bzip2"}) {
    const std::string layer = std::string("l-") + with;
    Extract(Compress(tar, with), layer);
    EXPECT_EQ(Read(Path(layer + "/a")), "content");
  }
}

TEST_F(ImagesUnpack, LaterEntriesReplaceEarlierOnes) {
  Extract(TarBuilder()
              .File("a", "first")
              .File("a", "second")
              .Dir("d")
              .File("d/inner", "x")
              .File("d", "now a file")
              .File("f", "x")
              .Dir("f")
              .File("f/inner", "y")
              .Symlink("s", "/nowhere")
              .File("s", "not through the link")
              .File("linked", "one")
              .HardLink("other", "linked")
              .File("linked", "two")
              .HardLink("other", "other")
              .Finish(),
          "l1");
  EXPECT_EQ(Read(Path("l1/a")), "second");
  EXPECT_EQ(Read(Path("l1/d")), "now a file");
  EXPECT_EQ(Read(Path("l1/f/inner")), "y");
  EXPECT_TRUE(S_ISREG(Stat("l1/s").st_mode));
  EXPECT_EQ(Read(Path("l1/other")), "one") << "a replaced file must not be truncated";
  EXPECT_EQ(Read(Path("l1/linked")), "two");
}

// Deeper than the number of directories that a removal keeps open. The files beside it stay.
TEST_F(ImagesUnpack, ADeepDirectoryIsReplaced) {
  std::string deep = "d";
  TarBuilder tar;
  tar.Dir(deep).File("d.0", "beside");
  for (int i = 0; i < 45; ++i) {
    deep += "/a";
    tar.Dir(deep).File(deep + "/file", "x");
  }
  Extract(tar.File("d", "now a file").Finish(), "l1");
  EXPECT_EQ(Read(Path("l1/d")), "now a file");
  EXPECT_EQ(Read(Path("l1/d.0")), "beside");
}

TEST_F(ImagesUnpack, NamesAreBytes) {
  const std::string latin = "caf\xe9";
  const std::string utf8 = "caf\xc3\xa9";
  const std::string control = "new\nline";
  const std::string longest(255, 'n');
  Extract(TarBuilder()
              .File(latin, "1")
              .Add({.name = "short", .content = "2", .pax = {{"path", utf8 + "2"}}})
              .File(control, "3")
              .LongName("dir/" + longest)
              .File("cut", "4")
              .Add({.name = "x", .content = "5", .pax = {{"path", "pax/" + longest}}})
              .File("/absolute", "6")
              .Finish(),
          "l1");
  EXPECT_EQ(Read(Path("l1/" + latin)), "1");
  EXPECT_EQ(Read(Path("l1/" + utf8 + "2")), "2");
  EXPECT_EQ(Read(Path("l1/" + control)), "3");
  EXPECT_EQ(Read(Path("l1/dir/" + longest)), "4");
  EXPECT_EQ(Read(Path("l1/pax/" + longest)), "5");
  EXPECT_EQ(Read(Path("l1/absolute")), "6") << "an absolute name is one below the layer";
}

TEST_F(ImagesUnpack, SparseFilesKeepTheirHoles) {
  // GNU.sparse 0.1 in PAX: 1 GiB, of which the archive holds the last 5 bytes.
  Extract(TarBuilder()
              .Add({.name = "s",
                    .content = "bytes",
                    .pax = {{"GNU.sparse.size", "1073741824"},
                            {"GNU.sparse.numblocks", "1"},
                            {"GNU.sparse.map", "1073741819,5"}}})
              .Finish(),
          "l1");
  EXPECT_EQ(Stat("l1/s").st_size, 1 << 30);
  EXPECT_LE(Stat("l1/s").st_blocks, 64);
}

TEST_F(ImagesUnpack, AnEmptyLayerIsOne) {
  // Docker's layer for a step that changed nothing: 1,024 zero bytes, with a known digest.
  const UnpackReport report = Extract(std::string(1024, '\0'), "l1");
  EXPECT_EQ(report.diff_id,
            "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef");
  EXPECT_EQ(Stat("l1").st_mode, S_IFDIR | 0755U);
}

// The union of layers as a sandbox sees it, in a mount namespace of its own.
class Overlay {
 public:
  Overlay(const std::string& base, const std::string& lowers) : mount_(base + "/merged") {
    EXPECT_EQ(unshare(CLONE_NEWNS), 0);
    EXPECT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    mkdir(mount_.c_str(), 0755);
    const std::string options = "userxattr,lowerdir=" + lowers;
    EXPECT_EQ(mount("overlay", mount_.c_str(), "overlay", MS_RDONLY, options.c_str()), 0)
        << strerror(errno);
  }
  ~Overlay() {
    umount2(mount_.c_str(), MNT_DETACH);
    rmdir(mount_.c_str());
  }
  std::set<std::string> List(const std::string& directory) const {
    std::set<std::string> names;
    for (const auto& e : std::filesystem::directory_iterator(mount_ + directory)) {
      names.insert(e.path().filename());
    }
    return names;
  }

 private:
  std::string mount_;
};

TEST_F(ImagesUnpack, WhiteoutsAndOpaqueDirectoriesHideWhatIsBelow) {
  using Names = std::set<std::string>;
  Extract(TarBuilder()
              .File("gone", "1")
              .File("stays", "1")
              .Dir("opaque")
              .File("opaque/old", "1")
              .Dir("replaced")
              .File("replaced/old", "1")
              .Dir("replaced-later")
              .File("replaced-later/old", "1")
              .Dir("implied")
              .File("implied/old", "1")
              .Dir("merged")
              .File("merged/old", "1")
              .Finish(),
          "bottom");
  Extract(TarBuilder()
              .File(".wh.gone", "")
              .Dir("opaque")
              .File("opaque/.wh..wh..opq", "")
              .File("opaque/new", "2")
              // The specification's "resources in lower layers only": the entries of this layer
              // stay.
              .File(".wh.replaced", "")
              .Dir("replaced")
              .File("replaced/new", "2")
              .Dir("replaced-later")
              .File("replaced-later/new", "2")
              .File(".wh.replaced-later", "")
              .File(".wh.implied", "")
              .File("implied/new", "2")
              .Dir("merged")
              .File("merged/new", "2")
              .File(".wh..wh.plnk/1.2", "aufs")
              .File(".wh..wh.aufs", "aufs")
              .Finish(),
          "top");
  const struct stat whiteout = Stat("top/gone");
  EXPECT_TRUE(S_ISCHR(whiteout.st_mode) && whiteout.st_rdev == makedev(0, 0));
  const Overlay overlay(base_, Path("top") + ":" + Path("bottom"));
  EXPECT_EQ(overlay.List("/"),
            (Names{"stays", "opaque", "replaced", "replaced-later", "implied", "merged"}));
  EXPECT_EQ(overlay.List("/opaque"), Names{"new"});
  EXPECT_EQ(overlay.List("/replaced"), Names{"new"});
  EXPECT_EQ(overlay.List("/replaced-later"), Names{"new"});
  EXPECT_EQ(overlay.List("/implied"), Names{"new"});
  EXPECT_EQ(overlay.List("/merged"), (Names{"old", "new"}));
}

TEST_F(ImagesUnpack, AnOpaqueRootIsReported) {
  EXPECT_TRUE(
      Extract(TarBuilder().File(".wh..wh..opq", "").File("a", "").Finish(), "l1").opaque_root);
}

TEST_F(ImagesUnpack, FollowsLinksOfTheLayerInsideTheLayer) {
  Extract(TarBuilder()
              .Dir("usr/lib")
              .Symlink("lib", "usr/lib")
              .File("lib/relative", "r")
              .Symlink("lib64", "/usr/lib")
              .File("lib64/absolute", "a")
              .Symlink("up", "../../../usr/lib")
              .File("up/dots", "d")
              .HardLink("hard", "lib/relative")
              .Finish(),
          "l1");
  EXPECT_EQ(Read(Path("l1/usr/lib/relative")), "r");
  EXPECT_EQ(Read(Path("l1/usr/lib/absolute")), "a");
  EXPECT_EQ(Read(Path("l1/usr/lib/dots")), "d");
  EXPECT_EQ(Stat("l1/hard").st_ino, Stat("l1/usr/lib/relative").st_ino);
}

// The form without index.json: a second occurrence of a layer is a link to the first.
TEST_F(ImagesUnpack, SplitWritesADockerArchiveAsAnOciLayout) {
  const std::string first = TarBuilder().File("a", "1").Finish();
  const std::string second = "\x1f\x8b compressed";
  const std::string config = R"({"os":"linux"})";
  const std::string config_name = HexOf(Sha256Of(config)) + ".json";
  const UnpackOutcome outcome = Run(
      "split",
      TarBuilder()
          .Dir("1")
          .File("1/VERSION", "1.0")
          .File("1/layer.tar", first)
          .Symlink("2/layer.tar", "../1/layer.tar")
          .File("3/layer.tar", second)
          .HardLink("4/layer.tar", "./3/layer.tar")
          .File(config_name, config)
          .File("repositories", "{}")
          .File("manifest.json", R"([{"Config":")" + config_name + R"(","RepoTags":["a:1","b:2"],
                "Layers":["1/layer.tar","2/layer.tar","./3//layer.tar","4/layer.tar"]}])")
          .Finish(),
      "split");
  ASSERT_EQ(outcome.wait_status, 0) << outcome.report;
  auto index = ChooseManifest(Read(Path("split/index.json")), "b:2");
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_EQ(index->ref_name, "b:2");
  auto manifest = ParseManifest(Read(Path("split/" + HexOf(index->digest))));
  ASSERT_TRUE(manifest) << manifest.error().message();
  EXPECT_EQ(manifest->config.digest, Sha256Of(config));
  ASSERT_EQ(manifest->layers.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    const std::string& bytes = i < 2 ? first : second;
    EXPECT_EQ(manifest->layers[i].digest, Sha256Of(bytes));
    EXPECT_EQ(manifest->layers[i].size, bytes.size());
    EXPECT_EQ(Read(Path("split/" + HexOf(manifest->layers[i].digest))), bytes);
  }
  EXPECT_TRUE(manifest->layers[0].media_type.ends_with(".tar"));
  EXPECT_TRUE(manifest->layers[2].media_type.ends_with("+gzip"));
  // Two layers, config, manifest, index.json and docker's manifest. No file has a name of ours.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("split")), {}), 6);
}

TEST_F(ImagesUnpack, SplitTakesTheMembersOfAnImageArchive) {
  const std::string hex(64, 'a');
  const UnpackOutcome outcome = Run("split",
                                    TarBuilder()
                                        .Dir("blobs")
                                        .Dir("blobs/sha256")
                                        .File("./blobs/sha256/" + hex, "blob")
                                        .File("oci-layout", "{}")
                                        .File("index.json", "[]")
                                        .File("manifest.json", "[]")
                                        .File("blobs/sha256/short", "ignored")
                                        .Symlink("other", "/etc/passwd")
                                        .Finish(),
                                    "split");
  EXPECT_EQ(outcome.wait_status, 0) << outcome.report;
  auto report = ParseUnpackReport(outcome.report);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->entries, 4U);
  EXPECT_EQ(Read(Path("split/" + hex)), "blob");
  EXPECT_EQ(Stat("split/" + hex).st_mode, S_IFREG | 0644U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("split")), {}), 4);
}

}  // namespace
}  // namespace atl::images
