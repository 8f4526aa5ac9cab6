#include "runtime/base/kernel_version.h"

#include <sys/utsname.h>

#include <charconv>

namespace atl {

KernelVersion ParseKernelVersion(std::string_view release) {
  KernelVersion version;
  const char* const end = release.data() + release.size();
  const auto major = std::from_chars(release.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return {};
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  return minor.ec == std::errc() ? version : KernelVersion{};
}

KernelVersion RunningKernel() {
  utsname name{};
  ::uname(&name);
  return ParseKernelVersion(name.release);
}

}  // namespace atl
