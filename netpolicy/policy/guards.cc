#include "netpolicy/policy/guards.h"

#include <algorithm>

namespace atl::netpolicy {
namespace {

std::vector<IpPrefix> Known(std::initializer_list<const char*> texts) {
  std::vector<IpPrefix> prefixes;
  for (const char* text : texts) {
    const auto prefix = ParseIpPrefix(text);
    ATOLL_CHECK(prefix);
    prefixes.push_back(*prefix);
  }
  return prefixes;
}

// Adds ::ffff:0:0/96. It cannot be written in the list, because ParseIpPrefix turns mapped
// addresses into IPv4.
std::vector<IpPrefix> WithMapped(std::vector<IpPrefix> prefixes) {
  IpPrefix mapped;
  mapped.address.ipv6 = true;
  mapped.address.bytes[10] = mapped.address.bytes[11] = 0xff;
  mapped.length = 96;
  prefixes.push_back(mapped);
  return prefixes;
}

}  // namespace

// 64:ff9b::/96 and 2002::/16 embed IPv4 addresses. The parts that embed an address refused as IPv4
// are refused here.
const std::vector<IpPrefix>& NeverReachable() {
  static const std::vector<IpPrefix> prefixes = WithMapped(
      Known({"0.0.0.0/8", "10.200.0.0/13", "127.0.0.0/8", "224.0.0.0/3", "::/96", "64:ff9b::/104",
             "64:ff9b::7f00:0/104", "64:ff9b::e000:0/99", "2002::/16", "64:ff9b:1::/48",
             "fd61:746c:6c00::/40", "fe80::/10", "fec0::/10", "ff00::/8"}));
  return prefixes;
}

const std::vector<IpPrefix>& MetadataServices() {
  static const std::vector<IpPrefix> prefixes =
      Known({"169.254.0.0/16", "fd00:ec2::/32", "100.100.100.200/32", "168.63.129.16/32",
             "fd20:ce::254/128"});
  return prefixes;
}

std::vector<IpPrefix> DefaultPrivate() {
  return Known({"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"});
}

std::vector<IpPrefix> WithNat64(std::vector<IpPrefix> prefixes) {
  for (size_t i = 0, count = prefixes.size(); i < count; ++i) {
    if (prefixes[i].address.ipv6) continue;
    IpPrefix translated = *ParseIpPrefix("64:ff9b::/96");
    std::copy_n(prefixes[i].address.bytes.begin(), 4, translated.address.bytes.begin() + 12);
    translated.length = static_cast<uint8_t>(96 + prefixes[i].length);
    prefixes.push_back(translated);
  }
  return prefixes;
}

Result<std::vector<IpPrefix>> ParsePrefixes(const std::vector<std::string>& texts) {
  std::vector<IpPrefix> prefixes;
  for (const std::string& text : texts) {
    const auto prefix = ParseIpPrefix(text);
    if (!prefix) {
      return Fail(
          Code::kInvalidArgument,
          "'" + text + "' is not an address or prefix; write it like 10.0.0.0/8 or fc00::/7");
    }
    prefixes.push_back(*prefix);
  }
  return prefixes;
}

bool AnyContains(const std::vector<IpPrefix>& prefixes, const IpAddress& address) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const IpPrefix& prefix) { return prefix.Contains(address); });
}

}  // namespace atl::netpolicy
