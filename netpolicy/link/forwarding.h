// The host-wide sysctls that routing for sandboxes needs.
//
// Thread rule: stateless; reads and writes /proc/sys of the caller's network namespace.
#pragma once

#include "runtime/base/result.h"

namespace atl::netpolicy {

// Returns false if IPv6 is compiled out, or switched off (disable_ipv6) on lo or on new links.
bool Ipv6Available();

// Turns IPv4 and (if available) IPv6 forwarding on. A host that forwards ignores router
// advertisements and would lose its own default route, so interfaces that follow them (accept_ra =
// 1) are set to keep doing so (2). Forwarding is never turned off again, because other programs may
// have come to rely on it.
Status EnableForwarding();

struct Forwarding {
  bool ipv4 = false;
  bool ipv6 = false;
};
Forwarding ReadForwarding();

}  // namespace atl::netpolicy
