// Linux's version, for what no probe can tell. Thread rule: pure functions.
#pragma once

#include <compare>
#include <string_view>

namespace atl {

struct KernelVersion {
  int major = 0, minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};

// Of what uname(2) calls the release: "6.1.0-18-amd64". 0.0 if it is none.
KernelVersion ParseKernelVersion(std::string_view release);
KernelVersion RunningKernel();

}  // namespace atl
