#include "runtime/base/private_paths.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(PrivatePaths, AreLeftOut) {
  const std::vector<std::string> ours = {"/run/atoll", "/var/lib/atoll", ""};
  const auto told = [&](const char* text) { return WithoutPaths(text, ours); };
  EXPECT_EQ(told("connect to /run/atoll/spawner.sock: ENOENT"),
            "connect to (a path of the daemon): ENOENT");
  EXPECT_EQ(told("open '/var/lib/atoll/state/a b', /run/atoll"),
            "open '(a path of the daemon) b', (a path of the daemon)");
  EXPECT_EQ(told("/run/atoll/a/run/atoll/b"), "(a path of the daemon)");
  // Paths of a sandbox, and of others.
  for (const char* text : {"mount /proc: EPERM", "/run/atoll2/x", "/run/atol", ""}) {
    EXPECT_EQ(told(text), text);
  }
}

}  // namespace
}  // namespace atl
