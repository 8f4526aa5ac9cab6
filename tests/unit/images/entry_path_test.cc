#include "images/unpack/entry_path.h"

#include <gtest/gtest.h>

namespace atl::images::unpack {
namespace {

using Path = std::vector<std::string>;

TEST(EntryPath, NormalisesHonestNames) {
  const struct {
    std::string name;
    Path path;
  } cases[] = {{"a", {"a"}},
               {"./a//b/./c/", {"a", "b", "c"}},
               {"/etc/passwd", {"etc", "passwd"}},
               {"./", {}},
               {".", {}},
               {"///", {}},
               {"...", {"..."}},
               {"..a/b..", {"..a", "b.."}},
               {"\xff\n ", {"\xff\n "}},
               {std::string(255, 'x'), {std::string(255, 'x')}}};
  for (const auto& c : cases) {
    auto path = ParseEntryPath(c.name);
    ASSERT_TRUE(path) << c.name;
    EXPECT_EQ(*path, c.path) << c.name;
  }
}

TEST(EntryPath, RefusesHostileNames) {
  std::string deep;
  for (size_t i = 0; i <= kMaxDepth + 1; ++i) deep += "d/";
  for (const std::string& name :
       {std::string(), std::string(".."), std::string("../a"), std::string("/../a"),
        std::string("a/../b"), std::string("a/.."), std::string("a\0b", 3), std::string(256, 'x'),
        deep, std::string(kMaxPath + 14, '/')}) {
    EXPECT_FALSE(ParseEntryPath(name)) << name;
  }
}

TEST(EntryPath, ClassifiesWhiteouts) {
  auto whiteout = ClassifyPath({"etc", ".wh.passwd"});
  ASSERT_TRUE(whiteout);
  EXPECT_EQ(whiteout->kind, EntryKind::kWhiteout);
  EXPECT_EQ(whiteout->path, (Path{"etc", "passwd"}));
  auto opaque = ClassifyPath({"etc", ".wh..wh..opq"});
  ASSERT_TRUE(opaque);
  EXPECT_EQ(opaque->kind, EntryKind::kOpaque);
  EXPECT_EQ(opaque->path, Path{"etc"});
  EXPECT_EQ(ClassifyPath({".wh..wh..opq"})->path, Path{});
  for (const Path& path : {Path{".wh..wh.plnk"}, Path{".wh..wh.plnk", "1"},
                           Path{"a", ".wh..wh.aufs"}, Path{".wh..wh..opq", "x"}}) {
    EXPECT_EQ(ClassifyPath(path)->kind, EntryKind::kAufsBookkeeping);
  }
  EXPECT_EQ(ClassifyPath({"a", "b.wh.c"})->kind, EntryKind::kPlain);
  // A whiteout of a whiteout is a whiteout of a file with an odd name.
  EXPECT_EQ(ClassifyPath({".wh.x.wh.y"})->path, Path{"x.wh.y"});
  for (const Path& path : {Path{".wh."}, Path{".wh.."}, Path{".wh..."}, Path{".wh.a", "b"}}) {
    EXPECT_EQ(ClassifyPath(path)->kind, EntryKind::kNonsense);
  }
}

// The longest and deepest path that a sandbox can delete still has a whiteout in an archive.
TEST(EntryPath, MarksMayBeLongerThanWhatTheyAreAbout) {
  const std::string longest(kMaxComponent, 'x');
  EXPECT_EQ(ClassifyPath(*ParseEntryPath(".wh." + longest))->path, Path{longest});
  EXPECT_FALSE(ParseEntryPath(".wh." + longest + "x"));
  std::string whole;
  while (whole.size() + 16 < kMaxPath) whole += "123456789012345/";
  whole += std::string(kMaxPath - whole.size(), 'x');
  ASSERT_EQ(whole.size(), kMaxPath);
  EXPECT_TRUE(ClassifyPath(*ParseEntryPath(whole + "/")));
  EXPECT_FALSE(ClassifyPath(*ParseEntryPath(whole + "x")));
  EXPECT_EQ(ClassifyPath(*ParseEntryPath(whole + "/.wh..wh..opq"))->kind, EntryKind::kOpaque);
  std::string deep;
  for (size_t i = 0; i < kMaxDepth; ++i) deep += "d/";
  EXPECT_TRUE(ParseEntryPath(deep + ".wh..wh..opq"));
}

TEST(EntryPath, NamesOfParents) {
  for (const char* name : {"..", "../a", "/../a", "a/../b", "a/.."}) EXPECT_TRUE(NamesParent(name));
  for (const char* name : {"", "...", "..a/b..", "./a"}) EXPECT_FALSE(NamesParent(name));
}

TEST(EntryPath, KeepsXattrsThatMeanTheSameInASandbox) {
  const std::string capability(20, '\1');
  EXPECT_TRUE(KeepsXattr("user.note", "x"));
  EXPECT_TRUE(KeepsXattr("security.capability", capability));
  EXPECT_FALSE(KeepsXattr("security.capability", capability + "root"));
  for (const char* name : {"security.selinux", "trusted.x", "system.posix_acl_access", "user.", "x",
                           "user.overlay.opaque", "user.overlay.redirect", "user.overlay.x",
                           "trusted.overlay.metacopy", ""}) {
    EXPECT_FALSE(KeepsXattr(name, "y")) << name;
  }
  EXPECT_FALSE(KeepsXattr("user." + std::string(251, 'x'), ""));
  EXPECT_GT(XattrRoom("user.x", std::string(5000, 'x')), kMaxXattrRoom);
}

}  // namespace
}  // namespace atl::images::unpack
