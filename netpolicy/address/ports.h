// Ports that have a meaning both in the nftables rules and in the policy engine.
#pragma once

#include <cstdint>

namespace atl::netpolicy {

inline constexpr uint16_t kDnsPort = 53;
inline constexpr uint16_t kDnsOverTlsPort = 853;
inline constexpr uint16_t kHttpPort = 80, kHttpsPort = 443;
// Ports where the proxy judges the name that a connection carries, whatever its address.
inline constexpr uint16_t kWebPorts[] = {kHttpPort, kHttpsPort};
constexpr bool IsWebPort(uint16_t port) {
  return port == kHttpPort || port == kHttpsPort;
}

}  // namespace atl::netpolicy
