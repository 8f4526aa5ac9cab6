// TreeDiff without the confinement around it, compared with what the kernel's overlay shows of the
// same layers.
#include "images/unpack/tree_diff.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/sys.h"
#include "tests/priv/priv_test.h"

namespace atl::images::unpack {
namespace {

// "A path", "M path", "D path".
using Lines = std::set<std::string>;

class Lab {
 public:
  ~Lab() {
    for (const char* name : {"see-now", "see-was"})
      ::umount2((scratch_ / name).c_str(), MNT_DETACH);
  }
  std::string Sh(const std::string& command) { return scratch_.Sh(command); }
  void Whiteout(const std::string& path) {
    EXPECT_EQ(::mknod((scratch_ / path).c_str(), S_IFCHR | 0600, makedev(0, 0)), 0) << path;
  }
  void Mark(const std::string& path) {
    EXPECT_EQ(::setxattr((scratch_ / path).c_str(), "user.mine", "1", 1, 0), 0) << path;
  }
  void Opaque(const std::string& path) {
    EXPECT_EQ(::setxattr((scratch_ / path).c_str(), "user.overlay.opaque", "y", 1, 0), 0) << path;
  }

  // Diffs two stacks of directories, topmost first. `both` lie below each stack.
  Result<Lines> Diff(const std::vector<std::string>& now, const std::vector<std::string>& was,
                     const std::vector<std::string>& both, const ExtractLimits& limits = {},
                     bool parents = false) {
    std::vector<UniqueFd> open;
    std::vector<StackedLayer> layers;
    const auto add = [&](const std::vector<std::string>& names, bool of_now, bool of_was) {
      for (const std::string& name : names) {
        open.push_back(std::move(*sys::Open(scratch_ / name, O_RDONLY | O_DIRECTORY)));
        layers.push_back({open.back().get(), of_now, of_was});
      }
    };
    add(now, true, false);
    add(was, false, true);
    add(both, true, true);
    Lines lines;
    TreeDiff diff(limits, parents, [&lines](const Change& change) -> Status {
      const char kind = change.kind == Change::Kind::kAdded      ? 'A'
                        : change.kind == Change::Kind::kModified ? 'M'
                                                                 : 'D';
      EXPECT_TRUE(lines.insert(std::string{kind, ' '} + std::string(change.path)).second)
          << change.path;
      return {};
    });
    ATOLL_TRY(diff.Run(layers));
    entries = diff.entries();
    return lines;
  }

  // Returns the same difference as seen through two overlays.
  Lines Seen(std::vector<std::string> now, std::vector<std::string> was,
             const std::vector<std::string>& both) {
    now.insert(now.end(), both.begin(), both.end());
    was.insert(was.end(), both.begin(), both.end());
    const auto a = Tree("see-now", now), b = Tree("see-was", was);
    Lines lines;
    for (const auto& [path, told] : a) {
      const auto found = b.find(path);
      if (found == b.end()) {
        lines.insert("A " + path);
      } else if (found->second != told) {
        lines.insert("M " + path);
      }
    }
    for (const auto& [path, told] : b) {
      const std::string above = path.substr(0, path.rfind('/'));
      const auto parent = a.find(above);
      const bool top = above == path || (parent != a.end() && parent->second[0] == 'd');
      if (!a.contains(path) && top) lines.insert("D " + path);
    }
    return lines;
  }
  uint64_t entries = 0;

 private:
  std::map<std::string, std::string> Tree(const std::string& at, std::vector<std::string> layers) {
    // The kernel refuses an overlay of a single layer.
    Sh("umount " + at + " 2>/dev/null || true; mkdir -p " + at + " empty");
    layers.emplace_back("empty");
    std::string options = "userxattr,lowerdir=";
    for (const std::string& layer : layers) options += (scratch_ / layer) + ":";
    options.pop_back();
    EXPECT_EQ(::mount("overlay", (scratch_ / at).c_str(), "overlay", MS_RDONLY, options.c_str()), 0)
        << options;
    // Directories are listed without size and times.
    std::istringstream lines(
        Sh("cd " + at +
           " && find . -mindepth 1 -type d -printf '%P\\t%y %m %U %G\\n' && "
           "find . ! -type d -printf '%P\\t%y %m %U %G %s %T@ %l ' "
           "-exec sh -c '[ ! -f \"$1\" ] || [ -L \"$1\" ] || md5sum < \"$1\" | "
           "tr -d \"\\n\"; echo' sh {} \\;"));
    std::map<std::string, std::string> tree;
    for (std::string line; std::getline(lines, line);) {
      const size_t tab = line.find('\t');
      tree[line.substr(0, tab)] = line.substr(tab + 1);
    }
    return tree;
  }
  priv::ScratchDir scratch_;
};

constexpr char kBase[] =
    "mkdir -p base/etc/deep/er base/bin base/srv/a && echo 1 >base/etc/passwd && "
    "echo 2 >base/etc/deep/er/f && ln -s sh base/bin/link && echo 3 >base/bin/sh && "
    "echo 4 >base/srv/a/x && echo 5 >base/srv/y && mkfifo base/srv/pipe && mkdir base/kept && "
    "echo 6 >base/kept/k && echo 7 >base/file";

PRIV_TEST(TreeDiff, SeesWhatTheKernelSees) {
  Lab lab;
  lab.Sh(kBase);
  // Two generations of one sandbox, and one that has diverged.
  lab.Sh(
      "mkdir -p one/etc two/etc/deep other/srv && echo new >one/etc/added && "
      "echo changed >one/etc/passwd && mkdir -p one/srv && echo 9 >one/srv/z && "
      "mkdir one/file && echo in >one/file/in && chmod 700 one/etc && "
      "mkdir -p two/d1/d2 && echo x >two/d1/d2/x && ln -s other two/etc/passwd && "
      "echo back >other/srv/y && mkdir -p other/bin/link && echo l >other/bin/link/l");
  lab.Whiteout("one/bin");
  lab.Opaque("one/srv");
  lab.Whiteout("two/etc/added");
  lab.Whiteout("two/etc/deep/er");
  lab.Whiteout("other/kept");
  const std::vector<std::string> base = {"base"}, none = {};
  const std::pair<std::vector<std::string>, std::vector<std::string>> pairs[] = {
      {{"one"}, none},
      {{"two", "one"}, none},
      {{"two", "one"}, {"one"}},
      {{"two"}, {"one"}},
      {none, {"two", "one"}},
      {{"other"}, {"two", "one"}},
      {{"two", "one"}, {"other"}},
      {{"one", "other"}, {"other", "one"}},
  };
  for (const auto& [now, was] : pairs) {
    const auto told = lab.Diff(now, was, base);
    ASSERT_TRUE(told) << told.error().message();
    EXPECT_EQ(*told, lab.Seen(now, was, base)) << now.size() << " against " << was.size();
  }
  // Stacks that have no layer in common.
  const auto told = lab.Diff({"one", "base"}, {"other"}, {});
  ASSERT_TRUE(told);
  EXPECT_EQ(*told, lab.Seen({"one", "base"}, {"other"}, {}));
}

PRIV_TEST(TreeDiff, WhatWasCopiedUpAndIsTheSameIsNoChange) {
  Lab lab;
  lab.Sh(kBase);
  lab.Sh("cp -a base up && rm -r up/kept && touch up/etc up/srv");
  const auto same = lab.Diff({"up"}, {}, {"base"});
  ASSERT_TRUE(same);
  EXPECT_EQ(*same, Lines{});
  // Changes one property at a time.
  const std::pair<const char*, const char*> changes[] = {
      {"chmod 600 up/file", "M file"},
      {"chown 7 up/etc/passwd", "M etc/passwd"},
      {"touch -d 2001-02-03 up/srv/y", "M srv/y"},
      {"chmod 711 up/srv/a", "M srv/a"},
      {"ln -sfn ash up/bin/link; touch -hr base/bin/link up/bin/link", "M bin/link"},
      {"touch -r up/etc/deep/er/f t; echo 0 >up/etc/deep/er/f; touch -r t up/etc/deep/er/f",
       "M etc/deep/er/f"},
      {"rm up/srv/pipe; touch up/srv/pipe", "M srv/pipe"},
  };
  Lines expected;
  for (const auto& [command, line] : changes) {
    lab.Sh(command);
    expected.insert(line);
    const auto told = lab.Diff({"up"}, {}, {"base"});
    ASSERT_TRUE(told);
    EXPECT_EQ(*told, expected) << command;
  }
  lab.Mark("up/srv/a/x");
  expected.insert("M srv/a/x");
  EXPECT_EQ(*lab.Diff({"up"}, {}, {"base"}), expected);
  // Files that are each sandbox's own are not reported as changes.
  lab.Sh("echo x >up/etc/machine-id; echo y >up/etc/hosts");
  EXPECT_EQ(*lab.Diff({"up"}, {}, {"base"}), expected);
}

PRIV_TEST(TreeDiff, ParentsComeBeforeWhatIsInThem) {
  Lab lab;
  lab.Sh(kBase);
  lab.Sh("mkdir -p up/etc/deep/er && echo 0 >up/etc/deep/er/g");
  EXPECT_EQ(*lab.Diff({"up"}, {}, {"base"}, {}, true),
            (Lines{"M etc", "M etc/deep", "M etc/deep/er", "A etc/deep/er/g"}));
}

PRIV_TEST(TreeDiff, CostsWhatChanged) {
  Lab lab;
  lab.Sh(
      "mkdir -p base/many up/one && i=0; while [ $i -lt 2000 ]; do i=$((i+1)); "
      ": >base/many/$i; done; : >up/one/a");
  ASSERT_TRUE(lab.Diff({"up"}, {}, {"base"}));
  EXPECT_LE(lab.entries, 3U);
}

PRIV_TEST(TreeDiff, AHostileTreeIsBounded) {
  Lab lab;
  lab.Sh("mkdir base up && cd up && i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir d; cd d; done");
  const auto deep = lab.Diff({"up"}, {}, {"base"});
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().message().find("nested deeper than"), std::string::npos);
  lab.Sh(
      "rm -r up; mkdir up; ln -s /etc up/link; ln -s / up/loop; for i in 1 2 3 4 5 6 7 8 9; do "
      ": >up/$i; done");
  EXPECT_EQ(lab.Diff({"up"}, {}, {"base"})->size(), 11U);
  ExtractLimits limits;
  limits.max_entries = 10;
  const auto many = lab.Diff({"up"}, {}, {"base"}, limits);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace atl::images::unpack
