// LayerTree without the confinement around it: this second defence must hold alone.
#include "images/unpack/tree.h"

#include "tests/priv/unpack_fixture.h"

namespace atl::images::unpack {
namespace {

class ImagesTree : public UnpackFixture {
 protected:
  LayerTree Tree(const std::string& name) { return LayerTree(MakeOutput(name), {}); }
  static Status Nothing(int) { return {}; }
};

TEST_F(ImagesTree, LinksDoNotLeadOut) {
  LayerTree tree = Tree("l1");
  for (const std::string& target : {base_ + "/secret", std::string("../secret"),
                                    std::string("../../../../../../..") + base_ + "/secret"}) {
    ASSERT_TRUE(tree.AddSymlink({"e"}, {}, target));
    EXPECT_FALSE(tree.AddFile({"e", "file"}, {}, Nothing)) << target;
    EXPECT_FALSE(tree.AddFile({"e", "new"}, {}, Nothing)) << target;
    EXPECT_FALSE(tree.AddDirectory({"e", "dir"}, {})) << target;
    EXPECT_FALSE(tree.AddSymlink({"e", "link"}, {}, "x")) << target;
    EXPECT_FALSE(tree.AddFifo({"e", "fifo"}, {})) << target;
    EXPECT_FALSE(tree.AddWhiteout({"e", "file"})) << target;
    EXPECT_FALSE(tree.AddOpaque({"e"})) << target;
    EXPECT_FALSE(tree.AddHardLink({"h"}, {"e", "file"})) << target;
    EXPECT_FALSE(tree.AddHardLink({"e", "h"}, {"e"})) << target;
  }
  EXPECT_TRUE(tree.Finish());
}

TEST_F(ImagesTree, DeferredTimesDoNotFollowLinks) {
  const time_t before = Stat("secret").st_mtime;
  LayerTree tree = Tree("l1");
  Attributes old;
  old.mtime.tv_sec = 1;
  ASSERT_TRUE(tree.AddDirectory({"d"}, old));
  ASSERT_TRUE(tree.AddSymlink({"d"}, {}, base_ + "/secret"));
  ASSERT_TRUE(tree.Finish());
  EXPECT_EQ(Stat("secret").st_mtime, before);
}

TEST_F(ImagesTree, AReplacedParentIsLookedUpAgain) {
  // The cached descriptor of "d" belongs to a directory that has been removed.
  LayerTree tree = Tree("l1");
  ASSERT_TRUE(tree.AddFile({"d", "a"}, {}, Nothing));
  ASSERT_TRUE(tree.AddFile({"d"}, {}, Nothing));
  EXPECT_FALSE(tree.AddFile({"d", "b"}, {}, Nothing));
  ASSERT_TRUE(tree.AddDirectory({"d"}, {}));
  ASSERT_TRUE(tree.AddFile({"d", "c"}, {}, Nothing));
  EXPECT_TRUE(Exists("l1/d/c"));
}

}  // namespace
}  // namespace atl::images::unpack
