// The bytes that have passed a network interface, from sysfs. rtnetlink would answer the same, but
// holds the lock of all interfaces meanwhile, which the kernel keeps for tens of milliseconds while
// it deletes a link.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::spawner {

struct LinkBytes {
  uint64_t received = 0;
  uint64_t sent = 0;
};

// Returns a detached sysfs of the caller's network namespace. The host's own mount may show another
// namespace.
Result<UniqueFd> MountLinks();
// `links`: from MountLinks. kNotFound: there is no such interface.
Result<LinkBytes> ReadLinkBytes(int links, const std::string& name);

}  // namespace atl::spawner
