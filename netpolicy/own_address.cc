#include "netpolicy/own_address.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

bool IsOwnAddress(const IpAddress& address) {
  const int family = address.ipv6 ? AF_INET6 : AF_INET;
  const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Without a socket nobody can tell: then it counts as the host's.
  if (!socket) return errno != EAFNOSUPPORT;
  if (address.ipv6) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    std::memcpy(&to.sin6_addr, address.bytes.data(), 16);
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::memcpy(&to.sin_addr, address.bytes.data(), 4);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

}  // namespace atl::netpolicy
