// Addresses that are not part of the internet and that policies treat specially.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "netpolicy/address/ip.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// Addresses that no policy can open: this-network, loopback, multicast, reserved and broadcast,
// IPv6 link-local and site-local, local translators (RFC 8215), and the sandboxes of all instances.
const std::vector<IpPrefix>& NeverReachable();

// Addresses that are reachable only if a rule names them: IPv4 link-local, and the addresses that
// clouds use for their metadata services.
const std::vector<IpPrefix>& MetadataServices();

// The operator's own networks, guarded in the same way unless the configuration lists others: RFC
// 1918, RFC 6598 (carrier-grade NAT), RFC 4193.
std::vector<IpPrefix> DefaultPrivate();

// Adds the IPv6 prefixes that reach the given IPv4 prefixes through a translator (RFC 6052:
// 64:ff9b::/96).
std::vector<IpPrefix> WithNat64(std::vector<IpPrefix> prefixes);

// Parses a list of the configuration. kInvalidArgument names the text that is not a prefix.
Result<std::vector<IpPrefix>> ParsePrefixes(const std::vector<std::string>& texts);

bool AnyContains(const std::vector<IpPrefix>& prefixes, const IpAddress& address);

}  // namespace atl::netpolicy
