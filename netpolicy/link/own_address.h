// Tells whether an address belongs to this host, on whatever interface.
//
// Thread rule: any thread.
#pragma once

#include "netpolicy/address/ip.h"

namespace atl::netpolicy {

// Asks the kernel, which takes some 3 µs: a socket can be bound only to an address of the host.
// With net.ipv4.ip_nonlocal_bind set, every address counts as the host's.
bool IsOwnAddress(const IpAddress& address);

}  // namespace atl::netpolicy
