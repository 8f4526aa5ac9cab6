#include "runtime/base/kernel_version.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(KernelVersion, IsWhatUnameSays) {
  EXPECT_EQ(ParseKernelVersion("6.1.0-18-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(ParseKernelVersion("5.19+"), (KernelVersion{5, 19}));
  EXPECT_EQ(ParseKernelVersion("nonsense"), KernelVersion{});
  EXPECT_EQ(ParseKernelVersion("6"), KernelVersion{});
  EXPECT_GT(RunningKernel(), (KernelVersion{6, 0}));
}

TEST(KernelVersion, IsComparedByNumber) {
  EXPECT_LT((KernelVersion{6, 2}), (KernelVersion{6, 16}));
  EXPECT_LT((KernelVersion{5, 19}), (KernelVersion{6, 1}));
}

}  // namespace
}  // namespace atl
