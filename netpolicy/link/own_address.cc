#include "netpolicy/link/own_address.h"

#include <sys/socket.h>

#include <cerrno>

#include "netpolicy/address/endpoint.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

bool IsOwnAddress(const IpAddress& address) {
  const int family = address.ipv6 ? AF_INET6 : AF_INET;
  const UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Without a socket this cannot be decided, so the address counts as the host's.
  if (!socket) return errno != EAFNOSUPPORT;
  const Endpoint own = MakeEndpoint(address, 0);
  return ::bind(socket.get(), own.get(), own.size) == 0;
}

}  // namespace atl::netpolicy
