// Attacks that a process can still make after Confine(), tried by a program that plays a
// compromised unpacker.
#include <signal.h>

#include "tests/priv/unpack_fixture.h"

namespace atl::images {
namespace {

class ImagesConfine : public UnpackFixture {
 protected:
  UnpackOutcome Probe(const std::string& attempt, bool user_namespace = true,
                      bool no_new_privs = true) {
    Write(Path("input"), "x");
    auto input = sys::Open(Path("input"), O_RDONLY);
    const UniqueFd output = MakeOutput("out-" + attempt);
    auto outcome = RunUnpack({.mode = attempt,
                              .input = input->get(),
                              .output = output.get(),
                              .limits = {},
                              .program = std::getenv("ATOLL_CONFINE_PROBE"),
                              .own_user_namespace = user_namespace,
                              .no_new_privs = no_new_privs});
    EXPECT_TRUE(outcome) << outcome.error().message();
    return outcome ? *outcome : UnpackOutcome{};
  }
};

TEST_F(ImagesConfine, TheFilterKills) {
  for (const char* attempt : {"socket", "execve", "fork", "unshare", "mount", "chroot", "ptrace",
                              "bpf", "io_uring", "x32", "dup", "mmap-exec"}) {
    const UnpackOutcome outcome = Probe(attempt);
    EXPECT_TRUE(WIFSIGNALED(outcome.wait_status) && WTERMSIG(outcome.wait_status) == SIGSYS)
        << attempt << ": " << outcome.wait_status << " " << outcome.report;
  }
}

TEST_F(ImagesConfine, TheKernelRefuses) {
  for (const char* attempt : {"host", "descriptors", "chown", "device"}) {
    const UnpackOutcome outcome = Probe(attempt);
    EXPECT_TRUE(WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == 1)
        << attempt << ": " << outcome.wait_status << " " << outcome.report;
  }
}

TEST_F(ImagesConfine, WhatItLivesOnGoesThrough) {
  EXPECT_EQ(Probe("mkdir").wait_status, 0);
  EXPECT_TRUE(Exists("out-mkdir/made"));
}

TEST_F(ImagesConfine, RefusesToRunWithoutItsNamespaces) {
  const UnpackOutcome as_root = Probe("mkdir", false);
  EXPECT_EQ(WEXITSTATUS(as_root.wait_status), 100);
  EXPECT_NE(as_root.report.find("user namespace"), std::string::npos) << as_root.report;
  EXPECT_FALSE(Exists("out-mkdir/made"));
}

TEST_F(ImagesConfine, RefusesToRunWithoutNoNewPrivs) {
  const UnpackOutcome outcome = Probe("mkdir", true, false);
  EXPECT_EQ(WEXITSTATUS(outcome.wait_status), 100);
  EXPECT_NE(outcome.report.find("no_new_privs"), std::string::npos) << outcome.report;
}

}  // namespace
}  // namespace atl::images
