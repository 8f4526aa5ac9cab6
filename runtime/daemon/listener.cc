#include "runtime/daemon/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace atl::daemon {
namespace {

// A burst of a thousand clients.
constexpr int kBacklog = 1024;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address AddressOf(const Config& config) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, config.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(config.port);
    address.size = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  ATOLL_CHECK(::inet_pton(AF_INET6, config.host.c_str(), &v6->sin6_addr) == 1);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(config.port);
  address.size = sizeof *v6;
  return address;
}

}  // namespace

Result<Listener> BindListener(const Config& config) {
  const std::string where = "listen on " + config.host + " port " + std::to_string(config.port);
  Address address = AddressOf(config);
  Listener listener;
  listener.socket =
      UniqueFd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket) return FailSys("socket");
  const int one = 1;
  // A restart must not wait for connections of the last daemon to time out.
  if (::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) {
    return FailSys("setsockopt SO_REUSEADDR");
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::bind(listener.socket.get(), generic, address.size) != 0 ||
      ::listen(listener.socket.get(), kBacklog) != 0) {
    Error error = SysError(where);
    if (error.error_number() != EADDRINUSE) return Fail(std::move(error));
    return Fail(Code::kFailedPrecondition,
                error.message() + "; stop what listens there, or choose another: --server-port");
  }
  if (::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&address.storage),
                    &address.size) != 0) {
    return FailSys("getsockname");
  }
  listener.port = address.storage.ss_family == AF_INET
                      ? ntohs(reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port)
                      : ntohs(reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port);
  return listener;
}

}  // namespace atl::daemon
