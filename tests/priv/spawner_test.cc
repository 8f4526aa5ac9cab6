#include <gtest/gtest.h>

#include "tests/priv/priv_test.h"
#include "tests/priv/spawner_fixture.h"

namespace atl::priv {
namespace {

PRIV_TEST(Spawner, BuildsClaimsAndDestroys) {
  SpawnerFixture spawner;
  EXPECT_EQ(spawner.Run("echo hello from $(busybox hostname)"), "hello from box\n");
}

}  // namespace
}  // namespace atl::priv
