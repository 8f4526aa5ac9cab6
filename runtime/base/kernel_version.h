// The version of Linux, for features that cannot be probed. Thread rule: pure functions.
#pragma once

#include <compare>
#include <string_view>

namespace atl {

struct KernelVersion {
  int major = 0, minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};

// Parses the release of uname(2), such as "6.1.0-18-amd64". Returns 0.0 if it is malformed.
KernelVersion ParseKernelVersion(std::string_view release);
KernelVersion RunningKernel();

}  // namespace atl
