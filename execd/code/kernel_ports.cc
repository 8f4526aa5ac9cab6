#include "execd/code/kernel_ports.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "execd/run/loopback.h"

namespace atl::execd {

Result<KernelPorts> KernelPorts::Reserve() {
  KernelPorts ports;
  for (uint16_t& number : ports.numbers_) {
    ATOLL_ASSIGN(UniqueFd fd, OpenTcpSocket());
    const int on = 1;
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
      return FailSys("setsockopt SO_REUSEADDR");
    }
    ATOLL_ASSIGN(number, BindLoopback(fd.get()));
    ports.sockets_.push_back(std::move(fd));
  }
  return ports;
}

Result<UniqueFd> ConnectLoopback(uint16_t port) {
  ATOLL_ASSIGN(UniqueFd fd, OpenTcpSocket());
  // No delay, because a run is a few small messages in each direction.
  const int on = 1;
  static_cast<void>(::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  const sockaddr_in address = LoopbackAddress(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    return FailSys("connect 127.0.0.1:" + std::to_string(port));
  }
  return fd;
}

}  // namespace atl::execd
