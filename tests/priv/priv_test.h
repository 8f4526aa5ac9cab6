// PRIV_TEST(Suite, Name) { ... }: a GoogleTest case whose body runs as root in a forked child.
//
// The body may unshare, mount, drop capabilities, load seccomp or chdir without an effect on the
// test program. EXPECT_*, ASSERT_* and FAIL() work as usual in the body and in its children; their
// texts reach the parent's report. The case also fails if
// - the program does not run as root: a privileged test never skips;
// - the body dies of a signal, exits on its own, or exceeds the time limit;
// - the body leaves a process behind, however that process detached itself.
// The body starts single-threaded. It inherits the parent's fds, working directory and stdio.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace atl::priv {

// Below meson's own limit for a whole program, so that the report of a hang names its case.
inline constexpr int kTimeLimitMs = 25'000;

// Runs `body` in the child and adds its outcome to the current test's result.
void RunInChild(void (*body)(), int time_limit_ms = kTimeLimitMs);

// A directory for one test, on a file system that can hold overlay uppers and be id-mapped
// ($TEST_TMPDIR or /var/tmp). The process that made it removes it with everything in it.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  // Returns the output of a shell that runs `command` in the subdirectory `where`. The test fails
  // if a command in it fails, and the shell stops there.
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
