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
  for (size_t i = 0; i <= kMaxDepth; ++i) deep += "d/";
  for (const std::string& name :
       {std::string(), std::string(".."), std::string("../a"), std::string("/../a"),
        std::string("a/../b"), std::string("a/.."), std::string("a\0b", 3), std::string(256, 'x'),
        deep, std::string(kMaxPath + 1, '/')}) {
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
    EXPECT_FALSE(ClassifyPath(path));
  }
}

TEST(EntryPath, RulesForXattrs) {
  const std::string capability(20, '\1');
  EXPECT_EQ(RuleForXattr("user.note", "x"), XattrRule::kKeep);
  EXPECT_EQ(RuleForXattr("security.capability", capability), XattrRule::kKeep);
  EXPECT_EQ(RuleForXattr("security.capability", capability + "root"), XattrRule::kDrop);
  for (const char* name :
       {"security.selinux", "trusted.x", "system.posix_acl_access", "user.", "x"}) {
    EXPECT_EQ(RuleForXattr(name, ""), XattrRule::kDrop) << name;
  }
  for (const char* name : {"user.overlay.opaque", "user.overlay.redirect", "user.overlay.x",
                           "trusted.overlay.metacopy", ""}) {
    EXPECT_EQ(RuleForXattr(name, "y"), XattrRule::kRefuse) << name;
  }
  EXPECT_EQ(RuleForXattr("user." + std::string(251, 'x'), ""), XattrRule::kRefuse);
  EXPECT_EQ(RuleForXattr("user.x", std::string(5000, 'x')), XattrRule::kRefuse);
}

}  // namespace
}  // namespace atl::images::unpack
