// Whether an address is one of this host's, wherever it is.
//
// Thread rule: any thread.
#pragma once

#include "netpolicy/address/ip.h"

namespace atl::netpolicy {

// Asks the kernel, some 3 µs: a socket can be bound to an address of the host's and to no other
// (net.ipv4.ip_nonlocal_bind aside, where every address counts as the host's).
bool IsOwnAddress(const IpAddress& address);

}  // namespace atl::netpolicy
