// Ports that the rules in the kernel and the engine of the policies treat alike.
#pragma once

#include <cstdint>

namespace atl::netpolicy {

inline constexpr uint16_t kDnsPort = 53;
inline constexpr uint16_t kDnsOverTlsPort = 853;
inline constexpr uint16_t kHttpPort = 80, kHttpsPort = 443;
// Where names decide, whatever the addresses: what the proxy is for.
inline constexpr uint16_t kWebPorts[] = {kHttpPort, kHttpsPort};
constexpr bool IsWebPort(uint16_t port) {
  return port == kHttpPort || port == kHttpsPort;
}

}  // namespace atl::netpolicy
