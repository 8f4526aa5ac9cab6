#include "execd/run/loopback.h"

#include <arpa/inet.h>
#include <sys/socket.h>

namespace atl::execd {

sockaddr_in LoopbackAddress(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

Result<UniqueFd> OpenTcpSocket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return FailSys("socket");
  return fd;
}

Result<uint16_t> BindLoopback(int socket) {
  sockaddr_in address = LoopbackAddress(0);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket, generic, size) != 0 || ::getsockname(socket, generic, &size) != 0) {
    return FailSys("bind a port of 127.0.0.1");
  }
  return ntohs(address.sin_port);
}

}  // namespace atl::execd
