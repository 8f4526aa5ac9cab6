// TreeCopy without the confinement around it: the result of each pass over a tree that changes.
#include "images/unpack/tree_copy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/sys.h"
#include "tests/priv/priv_test.h"

namespace atl::images::unpack {
namespace {

class Lab {
 public:
  explicit Lab(const ExtractLimits& limits = {})
      : from_(Make("from")), to_(Make("to")), copy(from_.get(), to_.get(), limits) {}

  // Runs a command in the source.
  std::string Sh(const std::string& command, const std::string& where = "from") {
    return scratch_.Sh(command, where);
  }
  void ExpectSame() {
    // Lists everything but inode numbers and ctimes. Hard links appear as the link count of each
    // file.
    const std::string tell =
        "find . -printf '%P %y %m %U %G %n %s %T@ %l\\n' | sort; "
        "find . -type f | sort | xargs -d '\\n' -r md5sum";
    EXPECT_EQ(Sh(tell, "to"), Sh(tell));
  }
  std::string Path(const std::string& name) { return scratch_ / name; }

 private:
  UniqueFd Make(const std::string& name) {
    std::filesystem::create_directory(scratch_ / name);
    return std::move(*sys::Open(scratch_ / name, O_RDONLY | O_DIRECTORY));
  }
  priv::ScratchDir scratch_;
  UniqueFd from_, to_;

 public:
  TreeCopy copy;
};

// Runs passes until one finds nothing to do, so that everything written before is copied.
void Settle(TreeCopy& copy) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {
    ASSERT_TRUE(copy.Mark());
    ASSERT_TRUE(copy.Pass(false));
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  } while (copy.copied() != 0);
}

constexpr char kTree[] =
    "mkdir -p a/b c 'odd name' && echo 1 >a/one && echo 2 >a/b/two && ln a/one c/other && "
    "ln a/one third && ln -s a/one link && mkfifo pipe && chmod 4711 a/b/two && "
    "head -c 3000000 /dev/urandom >c/big && mkdir -m 1700 sticky && chown 12:34 sticky c/big";

PRIV_TEST(TreeCopy, EachPassFollowsTheSource) {
  Lab lab;
  lab.Sh(kTree);
  ASSERT_TRUE(lab.copy.Pass(false));
  lab.ExpectSame();
  const char* const changes[] = {
      "mv a z",                                        // a directory with linked files
      "mkdir a && mv z/b a/b && rmdir sticky",         //
      "rm c/other && echo new >c/other",               // not a link any more
      "rm third && mkdir third && echo in >third/x",   // another file type
      "rm -r third && ln -s nowhere third",            //
      "echo more >>z/one",                             // content only
      "chmod 600 a/b/two && chown 5 link -h",          // attributes only
      "touch -d '2001-02-03' c",                       //
      "mv c d && mv 'odd name' c && mv d 'odd name'",  // two directories swap places
      "ln 'odd name/big' big && rm 'odd name/big' && ln big a/big",
      "echo same >x1 && echo size >x2 && sync && mv x1 t && mv x2 x1 && mv t x2",
      ": >big",
      "find . -mindepth 1 -delete",
  };
  for (const char* change : changes) {
    lab.Sh(change);
    ASSERT_TRUE(lab.copy.Pass(false)) << change;
    lab.ExpectSame();
    lab.Sh("touch -a .");
    ASSERT_TRUE(lab.copy.Pass(true)) << change;
    lab.ExpectSame();
    if (testing::Test::HasFailure()) FAIL() << change;
  }
}

PRIV_TEST(TreeCopy, ALastPassCopiesWhatHasChanged) {
  Lab lab;
  lab.Sh(kTree);
  Settle(lab.copy);
  const std::string before = lab.Sh("stat -c %i c/big a/b/two", "to");
  lab.Sh("echo 22 >a/b/two");
  ASSERT_TRUE(lab.copy.Pass(true));
  EXPECT_LE(lab.copy.copied(), 3U);
  EXPECT_EQ(lab.Sh("stat -c %i c/big", "to"), before.substr(0, before.find('\n') + 1));
  EXPECT_GT(lab.copy.bytes(), 3'000'000U);
  lab.ExpectSame();
}

// A write to a mapped page that is already dirty does not change the ctime.
PRIV_TEST(TreeCopy, AMappedPageIsNotForgotten) {
  Lab lab;
  lab.Sh("head -c 8192 /dev/zero >file");
  const UniqueFd file = std::move(*sys::Open(lab.Path("from/file"), O_RDWR));
  void* const mapped = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const page = static_cast<volatile char*>(mapped);
  for (int round = 1; round < 20; ++round) {
    page[0] = static_cast<char>(round);
    Settle(lab.copy);
    page[0] = static_cast<char>(round + 100);
    ASSERT_TRUE(lab.copy.Pass(true));
    EXPECT_EQ(std::ifstream(lab.Path("to/file")).get(), round + 100);
  }
}

// Pages that are dirtied after the write-back of a pass, and written to after they were copied.
// There are many, so that some page fault has set its file's time and then waits for a CPU. If the
// mark were made while they write, every second run would fail.
PRIV_TEST(TreeCopy, MappedPagesThatAreBusyAreCopiedAgain) {
  constexpr size_t kWriters = 16;
  Lab lab;
  std::array<std::string, kWriters> paths;
  std::array<volatile uint32_t*, kWriters> counters{};
  for (size_t i = 0; i < kWriters; ++i) {
    const std::string name = "file" + std::to_string(i);
    lab.Sh("head -c 8192 /dev/zero >" + name);
    const UniqueFd file = std::move(*sys::Open(lab.Path("from/" + name), O_RDWR));
    void* const mapped = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    counters[i] = static_cast<volatile uint32_t*>(mapped);
    paths[i] = lab.Path("to/" + name);
  }
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(lab.copy.Mark());
    std::atomic<bool> stop = false;
    std::vector<std::thread> writers;
    for (volatile uint32_t* counter : counters) {
      writers.emplace_back([&stop, counter] {
        while (!stop) *counter = *counter + 1;
      });
    }
    const Status ahead = lab.copy.Pass(false);
    stop = true;
    for (std::thread& writer : writers) writer.join();
    ASSERT_TRUE(ahead && lab.copy.Pass(true));
    for (size_t i = 0; i < kWriters; ++i) {
      uint32_t copied = 0;
      std::ifstream(paths[i]).read(reinterpret_cast<char*>(&copied), sizeof copied);
      ASSERT_EQ(copied, *counters[i]) << round << " " << i;
    }
  }
}

PRIV_TEST(TreeCopy, HolesStayHoles) {
  Lab lab;
  lab.Sh(
      "truncate -s 1T large && echo x | dd of=large bs=1 seek=500000000000 conv=notrunc && "
      "truncate -s 5G empty");
  ASSERT_TRUE(lab.copy.Pass(true));
  EXPECT_LT(lab.copy.copied(), 1'000'000U);
  EXPECT_EQ(lab.Sh("stat -c '%s' large empty", "to"), lab.Sh("stat -c '%s' large empty"));
  EXPECT_EQ(lab.Sh("dd if=large bs=1 skip=500000000000 count=1 status=none", "to"), "x");
}

PRIV_TEST(TreeCopy, OfOverlaysOwnOnlyWhatHides) {
  Lab lab;
  lab.Sh("mkdir opaque plain && echo x >file");
  ASSERT_EQ(::mknod(lab.Path("from/gone").c_str(), S_IFCHR, makedev(0, 0)), 0);
  const auto set = [&](const char* name, const char* attribute) {
    ASSERT_EQ(::setxattr(lab.Path(std::string("from/") + name).c_str(), attribute, "y", 1, 0), 0);
  };
  set("opaque", "user.overlay.opaque");
  set("plain", "user.overlay.redirect");
  set("plain", "user.overlay.origin");
  set("file", "user.overlay.metacopy");
  set("file", "trusted.overlay.opaque");
  set("file", "user.own");
  ASSERT_TRUE(lab.copy.Pass(true));
  const auto names = [&](const char* name) {
    std::string list(1024, '\0');
    const ssize_t size =
        ::llistxattr(lab.Path(std::string("to/") + name).c_str(), list.data(), list.size());
    return list.substr(0, size < 0 ? 0 : static_cast<size_t>(size));
  };
  EXPECT_EQ(names("opaque"), std::string("user.overlay.opaque\0", 20));
  EXPECT_EQ(names("plain"), "");
  EXPECT_EQ(names("file"), std::string("user.own\0", 9));
  struct stat gone {};
  ASSERT_EQ(::lstat(lab.Path("to/gone").c_str(), &gone), 0);
  EXPECT_TRUE(S_ISCHR(gone.st_mode) && gone.st_rdev == 0);
  // An attribute that the source removes again.
  ASSERT_EQ(::removexattr(lab.Path("from/file").c_str(), "user.own"), 0);
  ASSERT_TRUE(lab.copy.Pass(true));
  EXPECT_EQ(names("file"), "");
}

PRIV_TEST(TreeCopy, WhatIsOneSandboxesOwnStays) {
  Lab lab;
  lab.Sh("mkdir -p etc var/lib/dbus && echo seed | tee etc/machine-id etc/hosts >etc/kept");
  ASSERT_TRUE(lab.copy.Pass(false));
  lab.Sh("mv etc/kept var/lib/dbus/machine-id && touch etc/kept");
  ASSERT_TRUE(lab.copy.Pass(true));
  EXPECT_EQ(lab.Sh("find . | sort", "to"),
            ".\n./etc\n./etc/kept\n./var\n./var/lib\n./var/lib/dbus\n");
}

PRIV_TEST(TreeCopy, ADeepTreeGoesAlone) {
  Lab lab;
  lab.Sh("mkdir -p $(printf 'd/%.0s' $(seq 200)) && touch d.0 d.1 d.2");
  ASSERT_TRUE(lab.copy.Pass(false));
  lab.Sh("rm -r d");
  ASSERT_TRUE(lab.copy.Pass(true));
  EXPECT_EQ(lab.Sh("find . | sort", "to"), ".\n./d.0\n./d.1\n./d.2\n");
}

PRIV_TEST(TreeCopy, Bounds) {
  ExtractLimits few;
  few.max_entries = 10;
  Lab many(few);
  many.Sh("touch 1 2 3 4 5 6 7 8 9 10");
  EXPECT_TRUE(many.copy.Pass(true));
  many.Sh("touch 11");
  EXPECT_EQ(many.copy.Pass(true).error().code(), Code::kResourceExhausted);
  ExtractLimits small;
  small.max_bytes = 1 << 20;
  Lab large(small);
  large.Sh("head -c 1200000 /dev/urandom >big && sync");
  EXPECT_EQ(large.copy.Pass(false).error().error_number(), ENOSPC);
  Lab deep;
  deep.Sh("i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir d && cd d || exit 1; done");
  EXPECT_EQ(deep.copy.Pass(true).error().code(), Code::kInvalidArgument);
  Lab device;
  ASSERT_EQ(::mknod(device.Path("from/null").c_str(), S_IFCHR, makedev(1, 3)), 0);
  EXPECT_EQ(device.copy.Pass(true).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace atl::images::unpack
