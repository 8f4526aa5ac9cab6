// PRIV_TEST(Suite, Name) { ... }: a GoogleTest case whose body runs as root in a forked child.
//
// The body may unshare, mount, drop capabilities, load seccomp or chdir: the test program stays as
// it was. EXPECT_*, ASSERT_* and FAIL() work as usual in the body, and in what it forks; their
// texts reach the parent's report. The case also fails when
//  - the program does not run as root: a privileged test never skips;
//  - the body dies of a signal, exits on its own, or overruns the time limit;
//  - it leaves a process behind, however that process detached itself.
// The body starts single-threaded; it inherits the parent's fds, working directory and stdio.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace atl::priv {

// Below meson's own limit for a whole program, so that a hang names its case.
inline constexpr int kTimeLimitMs = 25'000;

// Runs `body` in the child and turns what happened into the current test's result.
void RunInChild(void (*body)(), int time_limit_ms = kTimeLimitMs);

// A directory for this test alone, on a file system that can hold overlay uppers and be id-mapped
// ($TEST_TMPDIR or /var/tmp); removed with all that is in it, by the process that made it.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // What a shell says that runs `command` in the directory `where` of this one; the first command
  // in it that fails is the test's failure.
  std::string Sh(const std::string& command, const std::string& where = "") const;

 private:
  std::filesystem::path path_;
  int owner_;
};

}  // namespace atl::priv

#define PRIV_TEST(suite, name)                       \
  static void suite##_##name##_Body();               \
  TEST(suite, name) {                                \
    ::atl::priv::RunInChild(&suite##_##name##_Body); \
  }                                                  \
  static void suite##_##name##_Body()
