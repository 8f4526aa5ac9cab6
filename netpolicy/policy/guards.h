// Addresses that are no part of the internet, whatever anybody's policy says about the rest.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "netpolicy/address/ip.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// Never reachable: this-network, loopback, multicast, reserved and broadcast, IPv6's link-local
// and site-local, local translators (RFC 8215), and the sandboxes of all instances.
const std::vector<IpPrefix>& NeverReachable();

// Only when a rule names it: IPv4's link-local network and what the clouds put their metadata
// services on.
const std::vector<IpPrefix>& MetadataServices();

// The same for the operator's own networks, unless the configuration lists others: RFC 1918, RFC
// 6598 (carrier-grade NAT), RFC 4193.
std::vector<IpPrefix> DefaultPrivate();

// And what reaches the IPv4 ones of them through a translator (RFC 6052: 64:ff9b::/96).
std::vector<IpPrefix> WithNat64(std::vector<IpPrefix> prefixes);

// A list of the configuration. kInvalidArgument names the text that is no prefix.
Result<std::vector<IpPrefix>> ParsePrefixes(const std::vector<std::string>& texts);

bool AnyContains(const std::vector<IpPrefix>& prefixes, const IpAddress& address);

}  // namespace atl::netpolicy
