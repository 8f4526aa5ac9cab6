#include "runtime/daemon/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "runtime/base/notify.h"

namespace atl::daemon {
namespace {

// Enough for a burst of a thousand clients.
constexpr int kBacklog = 1024;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

Address AddressOf(const std::string& host, uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  ATOLL_CHECK(::inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.size = sizeof *v6;
  return address;
}

sockaddr* Generic(sockaddr_storage& storage) {
  return reinterpret_cast<sockaddr*>(&storage);
}

uint16_t PortOf(const sockaddr_storage& storage) {
  return ntohs(storage.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
}

// Returns true if the socket listens at the wanted address.
bool ListensOn(int socket, const Address& wanted) {
  int listens = 0;
  socklen_t size = sizeof listens;
  Address address;
  address.size = sizeof address.storage;
  if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
      ::getsockname(socket, Generic(address.storage), &address.size) != 0 ||
      address.storage.ss_family != wanted.storage.ss_family) {
    return false;
  }
  if (PortOf(wanted.storage) != 0 && PortOf(address.storage) != PortOf(wanted.storage)) {
    return false;
  }
  if (wanted.storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(wanted.storage).sin_addr.s_addr;
  }
  return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr,
                            &reinterpret_cast<const sockaddr_in6&>(wanted.storage).sin6_addr);
}

Result<UniqueFd> Bind(const Address& address, const std::string& where, const std::string& flag) {
  UniqueFd listener(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return FailSys("socket");
  const int one = 1;
  // A restart must not wait until the former daemon's connections have timed out.
  if (::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) {
    return FailSys("setsockopt SO_REUSEADDR");
  }
  const auto* generic = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::bind(listener.get(), generic, address.size) != 0 ||
      ::listen(listener.get(), kBacklog) != 0) {
    Error error = SysError(where);
    if (error.error_number() != EADDRINUSE) return Fail(std::move(error));
    return Fail(
        Code::kFailedPrecondition,
        error.message() + "; stop the program that listens there, or choose another port: " + flag);
  }
  return listener;
}

}  // namespace

Result<Listener> BindListener(const std::string& host, uint16_t port, const std::string& flag,
                              const std::string& stored) {
  const std::string where = "listen on " + host + " port " + std::to_string(port);
  Address address = AddressOf(host, port);
  Listener listener;
  listener.socket = TakeStored(stored);
  if (listener.socket && !ListensOn(listener.socket.get(), address)) {
    NotifySystemd("FDSTOREREMOVE=1\nFDNAME=" + stored);
    // shutdown, because systemd's duplicate would keep listening until systemd has read the
    // removal, perhaps on the wanted port.
    ::shutdown(listener.socket.get(), SHUT_RDWR);
    listener.socket.reset();
  }
  if (!listener.socket) {
    ATOLL_ASSIGN(listener.socket, Bind(address, where, flag));
    NotifySystemd("FDSTORE=1\nFDNAME=" + stored, listener.socket.get());
  }
  if (::getsockname(listener.socket.get(), Generic(address.storage), &address.size) != 0) {
    return FailSys("getsockname");
  }
  listener.port = PortOf(address.storage);
  return listener;
}

}  // namespace atl::daemon
