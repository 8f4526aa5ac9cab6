// Hostile archives against the real atoll-unpack. After each test the fixture proves that nothing
// was written outside of the output directories.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "tests/priv/unpack_fixture.h"
#include "tests/unit/images/gzip.h"
#include "tests/unit/images/tar_builder.h"

namespace atl::images {
namespace {

using ImagesAttack = UnpackFixture;

TEST_F(ImagesAttack, PathTraversal) {
  TarBuilder tar;
  uint64_t entries = 0;
  for (const char* name : {"../secret/file", "a/../../secret/file", "..", "./..", "a/b/.."}) {
    tar.File(name, "owned").Symlink(name, "x");
    entries += 2;
  }
  // A PAX record or a long name overrides the header, whose own name is innocent.
  tar.Add({.name = "ok", .content = "x", .pax = {{"path", "../secret/x"}}});
  tar.LongName("../secret/x").File("ok", "owned");
  entries += 2;
  // The unpacker skips these entries and keeps the others.
  const UnpackReport report = Extract(tar.File("kept", "x").Finish(), "l1");
  EXPECT_EQ(report.skipped_entries, entries);
  EXPECT_EQ(Read(Path("l1/kept")), "x");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("l1")), {}), 1);
}

TEST_F(ImagesAttack, AbsoluteNamesStayInside) {
  Extract(TarBuilder().File(base_ + "/secret/file", "owned").Finish(), "l1");
  EXPECT_EQ(Read(Path("l1" + base_ + "/secret/file")), "owned");
}

TEST_F(ImagesAttack, WritesThroughSymlinksStayInside) {
  // The link's target exists on the host, not in the layer.
  Refuses("layer", TarBuilder().Symlink("e", base_ + "/secret").File("e/file", "owned").Finish(),
          "a symbolic link that leads nowhere");
  Refuses("layer", TarBuilder().Symlink("e", "../secret").File("e/file", "owned").Finish(),
          "a symbolic link that leads nowhere");
  Refuses("layer",
          TarBuilder().Symlink("a", "b").Symlink("b", "a").File("a/file", "owned").Finish(),
          "Too many levels");
  // The last component is replaced, not followed.
  Extract(TarBuilder().Symlink("f", base_ + "/secret/file").File("f", "inside").Finish(), "l1");
  EXPECT_EQ(Read(Path("l1/f")), "inside");
  // The attributes of a directory entry do not go through a link either.
  Extract(TarBuilder().Symlink("d", base_ + "/secret").Dir("d", 0700).Finish(), "l2");
  EXPECT_TRUE(S_ISDIR(Stat("l2/d").st_mode));
  EXPECT_EQ(Stat("secret").st_mode & 0777, 0777U);
}

TEST_F(ImagesAttack, HardLinksStayInside) {
  Refuses("layer", TarBuilder().HardLink("h", "../secret/file").Finish(), "its name contains '..'");
  Refuses("layer", TarBuilder().HardLink("h", base_ + "/secret/file").Finish(),
          "which this layer does not have");
  Refuses("layer", TarBuilder().Symlink("s", base_ + "/secret").HardLink("h", "s/file").Finish(),
          "which this layer does not have");
  // A hard link to a symbolic link refers to the link itself. Writing to it replaces the link.
  Extract(TarBuilder()
              .Symlink("s", base_ + "/secret/file")
              .HardLink("h", "s")
              .File("h", "inside")
              .Finish(),
          "l1");
  EXPECT_EQ(Read(Path("l1/h")), "inside");
  Refuses("layer", TarBuilder().Dir("d").HardLink("h", "d").Finish(), "which is not a file");
  Refuses("layer", TarBuilder().File(".wh.w", "").HardLink("h", "w").Finish(),
          "which is not a file");
  Refuses("layer", TarBuilder().HardLink("h", ".").Finish(), "hard link to the root");
}

TEST_F(ImagesAttack, DeviceNodesAndStrangeTypes) {
  const UnpackReport report =
      Extract(TarBuilder()
                  .Add({.type = '3', .name = "null", .major = 1, .minor = 3})
                  .Add({.type = '4', .name = "etc/sda", .major = 8})
                  // Device nodes that are overlay whiteouts, smuggled in as such.
                  .Add({.type = '3', .name = "opt"})
                  .Add({.type = '3', .name = "dev", .major = 1})
                  .Add({.type = '3', .name = "dev/mem", .mode = 0666, .major = 1, .minor = 1})
                  .File("kept", "x")
                  .Finish(),
              "l1");
  EXPECT_EQ(report.skipped_devices, 5U);
  EXPECT_EQ(Read(Path("l1/kept")), "x");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(Path("l1")), {}), 1);
}

TEST_F(ImagesAttack, OverlayXattrs) {
  TarEntry directory{.type = '5', .name = "d"};
  for (const char* name :
       {"user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy",
        "user.overlay.overlay.opaque", "trusted.overlay.opaque", "trusted.overlay.redirect"}) {
    directory.pax.emplace_back(std::string("SCHILY.xattr.") + name, "y");
  }
  // libarchive's own spelling: URL-encoded name, base64 value.
  directory.pax.emplace_back("LIBARCHIVE.xattr.user%2Eoverlay%2Eredirect", "L2V0Yw");
  EXPECT_EQ(Extract(TarBuilder().Add(directory).File("d/kept", "").Finish(), "l1").dropped_xattrs,
            7U);
  char names[256];
  EXPECT_EQ(listxattr(Path("l1/d").c_str(), names, sizeof names), 0);
  EXPECT_TRUE(Exists("l1/d/kept"));
}

// More than an inode of ext4 can hold. The error would look like a full disk.
TEST_F(ImagesAttack, XattrsWithoutEnd) {
  TarEntry file{.name = "f"};
  for (int i = 0; i < 1000; ++i) {
    file.pax.emplace_back("SCHILY.xattr.user.x" + std::to_string(i), std::string(60, 'y'));
  }
  file.pax.emplace_back("SCHILY.xattr.user.large", std::string(5000, 'y'));
  file.pax.emplace_back("SCHILY.xattr.user.zero", "");
  EXPECT_GT(Extract(TarBuilder().Add(file).Finish(), "l1").dropped_xattrs, 900U);
  EXPECT_EQ(getxattr(Path("l1/f").c_str(), "user.large", nullptr, 0), -1);
}

TEST_F(ImagesAttack, Whiteouts) {
  TarBuilder nonsense;
  for (const char* name : {".wh.", ".wh...", ".wh..", "a/.wh...", "a/.wh.", ".wh.a/b"}) {
    nonsense.File(name, "");
  }
  EXPECT_EQ(Extract(nonsense.Finish(), "l1").skipped_entries, 6U);
  EXPECT_TRUE(std::filesystem::is_empty(Path("l1")));
  // Only the name of an entry makes it a whiteout, as for other tools. The entry's type and content
  // do not matter.
  Extract(TarBuilder()
              .File("x", "")
              .Dir(".wh.a")
              .HardLink(".wh.b", "x")
              .Symlink(".wh.c", base_ + "/secret")
              .Add({.type = '3', .name = ".wh.d", .major = 1, .minor = 1})
              .Symlink("e/.wh..wh..opq", "x")
              .Finish(),
          "l2");
  for (const char* name : {"l2/a", "l2/b", "l2/c", "l2/d"}) {
    EXPECT_TRUE(S_ISCHR(Stat(name).st_mode) && Stat(name).st_rdev == 0) << name;
  }
  EXPECT_EQ(getxattr(Path("l2/e").c_str(), "user.overlay.opaque", nullptr, 0), 1);
  // A whiteout below a symbolic link applies to the link's target inside the layer.
  Refuses("layer", TarBuilder().Symlink("s", base_).File("s/.wh.secret", "").Finish(),
          "leads nowhere");
}

TEST_F(ImagesAttack, IdsOutsideTheSandbox) {
  const std::string tar = TarBuilder()
                              .Add({.name = "user", .mode = 06755, .uid = 65536, .gid = 1})
                              .Add({.name = "group", .mode = 0644, .pax = {{"gid", "4294967295"}}})
                              .Add({.name = "none", .pax = {{"uid", "-1"}}})
                              .Add({.name = "last", .mode = 04755, .uid = 65535})
                              .Finish();
  EXPECT_EQ(Extract(tar, "l1").replaced_owners, 3U);
  const struct stat user = Stat("l1/user");
  EXPECT_EQ(user.st_uid, kLayerIdBase + 65534);
  EXPECT_EQ(user.st_gid, kLayerIdBase + 1);
  EXPECT_EQ(user.st_mode, S_IFREG | 0755U);
  EXPECT_EQ(Stat("l1/group").st_gid, kLayerIdBase + 65534);
  EXPECT_EQ(Stat("l1/last").st_uid, kLayerIdBase + 65535);
  EXPECT_EQ(Stat("l1/last").st_mode, S_IFREG | 04755U);
}

TEST_F(ImagesAttack, TooLongTooDeepTooMany) {
  Refuses("layer",
          TarBuilder().Add({.name = "f", .pax = {{"path", std::string(256, 'a')}}}).Finish(),
          "longer than 255 bytes");
  std::string deep;
  for (int i = 0; i < 257; ++i) deep += "d/";
  Refuses("layer", TarBuilder().LongName(deep + "f").File("f", "").Finish(), "deeper than 256");
  Refuses("layer", TarBuilder().LongName(deep).Dir("d").Finish(), "deeper than 256");
  Refuses("layer", TarBuilder().LongName(std::string(5000, '/') + "f").File("f", "").Finish(),
          "longer than 4095 bytes");
  Refuses("layer", TarBuilder().File("a/b/c/d/e", "").Finish(), "more than the 4 files",
          Code::kResourceExhausted, {"max_entries=4"});
  Refuses("split", TarBuilder().File("a", "").File("b", "").Finish(), "more than the 1 members",
          Code::kResourceExhausted, {"max_members=1"});
  Refuses("layer", TarBuilder().Symlink("s", "").Finish(), "a symbolic link whose target is empty");
}

TEST_F(ImagesAttack, SparseBomb) {
  Refuses("layer",
          TarBuilder()
              .Add({.name = "s",
                    .content = "bytes",
                    .pax = {{"GNU.sparse.size", "4611686018427387904"},
                            {"GNU.sparse.numblocks", "1"},
                            {"GNU.sparse.map", "0,5"}}})
              .Finish(),
          "the archive's files have more than", Code::kResourceExhausted);
}

TEST_F(ImagesAttack, DecompressionBombs) {
  const std::string zeros = TarBuilder().File("z", std::string(8 << 20, '\0')).Finish();
  const std::string bomb = Gzip(zeros);
  ASSERT_LT(bomb.size() * 200, zeros.size());
  Refuses("layer", bomb, "taken for a decompression bomb", Code::kResourceExhausted,
          {"ratio_floor=1048576"});
  Refuses("split", bomb, "taken for a decompression bomb", Code::kResourceExhausted,
          {"ratio_floor=1048576"});
  for (const char* with : {"zstd", "xz", "bzip2"}) {
    Refuses("layer", Compress(zeros, with), "taken for a decompression bomb",
            Code::kResourceExhausted, {"ratio_floor=1048576"});
  }
  // Bytes that belong to no file count, too.
  Refuses("layer", TarBuilder().Finish() + std::string(1 << 20, 'x'), "it unpacks to more than",
          Code::kResourceExhausted, {"max_bytes=65536"});
  Refuses("layer", TarBuilder().File("z", std::string(4096, 'x')).Finish(), "bytes allowed",
          Code::kResourceExhausted, {"max_bytes=2048"});
  // The bomb follows the end of the tar, where only the digest is computed.
  Refuses("layer", Gzip(TarBuilder().Finish() + std::string(8 << 20, '\0')),
          "taken for a decompression bomb", Code::kResourceExhausted, {"ratio_floor=1048576"});
  Refuses("layer", Gzip(Gzip(TarBuilder().File("z", "x").Finish())), "compressed more than once");
}

TEST_F(ImagesAttack, DamagedArchives) {
  const std::string good = TarBuilder().File("a", std::string(2000, 'x')).Finish();
  Refuses("layer", good.substr(0, 1000), "error invalid_argument");
  Refuses("layer", TarBuilder().HeaderOnly({.name = "a"}, 1 << 20).Finish(), "error ");
  const std::string gz = Gzip(good);
  Refuses("layer", gz.substr(0, gz.size() / 2), "error ");
  std::string flipped = gz;
  flipped[flipped.size() / 2] ^= 0x55;
  Refuses("layer", flipped, "error ");
  Refuses("layer", std::string(4096, 'x'), "error ");
  Refuses("split", "this is not a tar", "error ");
}

TEST_F(ImagesAttack, SplitRefusesAllButPlainMembers) {
  const std::string blob = "blobs/sha256/" + std::string(64, 'b');
  Refuses("split", TarBuilder().Symlink("index.json", base_ + "/secret/file").Finish(),
          "not a regular file");
  Refuses("split", TarBuilder().File("x", "").HardLink(blob, "x").Finish(), "not a regular file");
  Refuses("split", TarBuilder().Add({.type = '3', .name = "oci-layout"}).Finish(),
          "not a regular file");
  Refuses("split", TarBuilder().File(blob, "1").File("./" + blob, "2").Finish(),
          "contains it twice");
  Refuses("split", TarBuilder().File("../index.json", "1").Finish(), "its name contains '..'");
  Refuses("split", TarBuilder().File("index.json", std::string((4 << 20) + 1, ' ')).Finish(),
          "larger than", Code::kResourceExhausted);
}

TEST_F(ImagesAttack, DockerArchivesLeadNowhereElse) {
  const auto saved = [](const std::string& config, const std::string& layer) {
    return R"([{"Config":")" + config + R"(","Layers":[")" + layer + R"("]}])";
  };
  const std::string good = saved("c.json", "l.tar");
  const std::string secret = base_ + "/secret/file";
  const auto archive = [] { return TarBuilder().File("c.json", "{}").File("l.tar", "x"); };
  // Paths in the manifest.
  for (const char* path : {"../secret/file", "a/../l.tar", "..", "l.tar/../../secret/file"}) {
    Refuses("split", archive().File("manifest.json", saved("c.json", path)).Finish(),
            "its name contains '..'");
    Refuses("split", archive().File("manifest.json", saved(path, "l.tar")).Finish(),
            "its name contains '..'");
  }
  // A leading '/' means the archive's root. The path reaches no file of the host, of our own, or of
  // /proc.
  for (const std::string& path : {secret, std::string("/proc/self/fd/3"), std::string("member-0"),
                                  std::string("."), std::string("/")}) {
    Refuses("split", archive().File("manifest.json", saved("c.json", path)).Finish(),
            "is missing in the archive");
  }
  // Links to the host, out of the archive, in circles, to another link, and to nothing.
  for (const std::string& target :
       {secret, std::string("../../secret/file"), std::string("../l.tar"), std::string("l"),
        std::string("k"), std::string("none")}) {
    Refuses("split",
            archive()
                .Symlink("l", target)
                .Symlink("k", "l.tar")
                .File("manifest.json", saved("c.json", "l"))
                .Finish(),
            "leads to no file of the archive");
  }
  Refuses("split", archive().HardLink("l", "../secret/file").Finish(), "its name contains '..'");
  Refuses("split", archive().File("m", good).Symlink("manifest.json", "m").Finish(),
          "'manifest.json': not a regular file");
  Refuses("split", archive().File("m", good).HardLink("manifest.json", "m").Finish(),
          "'manifest.json': not a regular file");
  Refuses("split", TarBuilder().Add({.type = '6', .name = "manifest.json"}).Finish(),
          "'manifest.json': not a regular file");
  // Two entries with the same name are refused, whichever would have won.
  Refuses("split", archive().File("./l.tar", "y").File("manifest.json", good).Finish(),
          "contains it twice");
  Refuses("split", archive().Symlink("l.tar", "c.json").File("manifest.json", good).Finish(),
          "contains it twice");
  Refuses("split", archive().File("manifest.json", good).File("manifest.json", good).Finish(),
          "contains it twice");
  Refuses("split", archive().File("manifest.json", std::string((4 << 20) + 1, ' ')).Finish(),
          "larger than", Code::kResourceExhausted);
  Refuses("split", archive().File("manifest.json", std::string(4 << 20, '[')).Finish(),
          "nested deeper than");
  // A config under another config's digest; a truncated layer.
  const std::string hex(64, 'a');
  Refuses("split",
          archive()
              .File(hex + ".json", "{}")
              .File("manifest.json", saved(hex + ".json", "l.tar"))
              .Finish(),
          "digest mismatch");
  Refuses("split",
          TarBuilder()
              .File("manifest.json", good)
              .HeaderOnly({.name = "l.tar"}, 4096)
              .Raw("half")
              .Unfinished(),
          "error ");
}

TEST_F(ImagesAttack, MessagesCannotForgeLines) {
  Refuses("layer",
          TarBuilder()
              .LongName("a\nerror internal: \x1b[31m/" + std::string(256, 'b'))
              .File("f", "")
              .Finish(),
          "a\\x0aerror internal: \\x1b[31m");
}

TEST_F(ImagesAttack, ADiskWithoutSpaceSaysSo) {
  ASSERT_EQ(unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  const std::string large(1 << 20, 'x');
  const std::string manifest = R"([{"Config":"c","Layers":["l"]}])";
  const struct {
    const char* mode;
    const char* room;
    std::string archive;
    const char* why;
  } cases[] = {
      {"layer", "size=64k", TarBuilder().File("a", large).Finish(), "'a': write: No space left"},
      {"split", "size=64k", TarBuilder().File("l", large).File("manifest.json", manifest).Finish(),
       "'l': write: No space left"},
      // Inodes for the root, a layer, a config and docker's manifest, but none for the files that
      // the unpacker adds.
      {"split", "nr_inodes=4",
       TarBuilder().File("c", "{}").File("l", "").File("manifest.json", manifest).Finish(),
       "No space left"},
  };
  const UniqueFd below = MakeOutput("full");
  for (const auto& [mode, room, archive, why] : cases) {
    ASSERT_EQ(mount("tmpfs", Path("full").c_str(), "tmpfs", 0, room), 0);
    ASSERT_EQ(chown(Path("full").c_str(), kLayerIdBase, kLayerIdBase), 0);
    Write(Path("input"), archive);
    {
      auto directory = sys::Open(Path("full"), O_RDONLY | O_DIRECTORY);
      auto input = sys::Open(Path("input"), O_RDONLY);
      ASSERT_TRUE(directory && input);
      auto outcome = RunUnpack({.mode = mode, .input = input->get(), .output = directory->get()});
      ASSERT_TRUE(outcome);
      EXPECT_NE(outcome->wait_status, 0);
      EXPECT_TRUE(outcome->report.starts_with("error no_room: ")) << outcome->report;
      EXPECT_NE(outcome->report.find(why), std::string::npos) << outcome->report;
    }
    ASSERT_EQ(umount(Path("full").c_str()), 0);
  }
}

}  // namespace
}  // namespace atl::images
