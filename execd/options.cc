#include "execd/options.h"

#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include "execd/gate.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/wire/guard.h"
#include "runtime/wire/start.h"

namespace atl::execd {
namespace {

sockaddr_vm VsockAddress(uint32_t cid, uint32_t port) {
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = cid;
  address.svm_port = port;
  return address;
}

// The most streams that the device of a machine's guard has at a time, and more than the
// connections that a guard of gVisor passes on at a time. Neither waits for room in the queue.
constexpr int kBacklog = 1024;

Result<UniqueFd> ConnectVsock(uint32_t cid, uint32_t port) {
  UniqueFd socket(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket AF_VSOCK");
  const sockaddr_vm address = VsockAddress(cid, port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // Never kUnavailable, as a reset would be: that is a gate that has closed.
    const Error why = SysError("connect vsock port " + std::to_string(port));
    return Fail(Code::kInternal, why.message());
  }
  return socket;
}

Result<UniqueFd> ListenVsock(uint32_t port) {
  UniqueFd socket(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket AF_VSOCK");
  const sockaddr_vm address = VsockAddress(VMADDR_CID_ANY, port);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("bind vsock port " + std::to_string(port));
  }
  // The kernel refuses a connection over vsock that finds the queue full, and the client has lost
  // its request. A Unix socket would let it wait.
  if (::listen(socket.get(), kBacklog) != 0) return FailSys("listen on vsock");
  return socket;
}

Result<UniqueFd> ListenBesideGuard() {
  ATOLL_ASSIGN(const sockaddr_un address,
               UnixAddress(std::string(wire::kGuardedDirectory) + "/" + wire::kGuardedSocket));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return FailSys("socket AF_UNIX");
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys(std::string("bind ") + address.sun_path);
  }
  if (::listen(socket.get(), kBacklog) != 0)
    return FailSys(std::string("listen ") + address.sun_path);
  ATOLL_TRY(sys::Open(std::string(wire::kGuardedDirectory) + "/" + wire::kGuardedReady,
                      O_WRONLY | O_CREAT | O_EXCL, 0600));
  return socket;
}

// Checks the peer, because processes in the virtual machine can also connect to its vsock ports.
// Only the host may.
bool PeerIs(int socket, uint32_t cid) {
  sockaddr_vm peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         peer.svm_family == AF_VSOCK && peer.svm_cid == cid;
}

}  // namespace

Result<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    uint32_t* target = name == "--enter-root"   ? &options.enter_root
                       : name == "--session"    ? &options.session
                       : name == "--guarded"    ? &options.guarded
                       : name == "--vsock-port" ? &options.vsock_port
                       : name == "--vsock-peer" ? &options.vsock_peer
                                                : nullptr;
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : argument.substr(equals + 1);
    const auto [end, error] =
        target ? std::from_chars(value.data(), value.data() + value.size(), *target)
               : std::from_chars_result{value.data(), std::errc()};
    if (!target || value.empty() || error != std::errc() || end != value.data() + value.size()) {
      return Fail(Code::kInvalidArgument, "option '" + std::string(argument) +
                                              "': use --enter-root=1, --session=1, --guarded=1, "
                                              "--vsock-port=N or --vsock-peer=CID");
    }
  }
  return options;
}

Status OpenSockets(const Options& options, UniqueFd* control, UniqueFd* listener,
                   std::function<bool(int)>* accept_peer, uint64_t* pass) {
  if (options.guarded != 0) {
    control->reset(wire::kExecdControlFd);
    ATOLL_ASSIGN(*listener, ListenBesideGuard());
    return {};
  }
  if (options.vsock_port == 0) {
    control->reset(wire::kExecdControlFd);
    listener->reset(wire::kExecdListenFd);
    // Non-blocking, because a client may disconnect between epoll_wait and accept.
    if (::fcntl(listener->get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0) {
      return FailSys("fd 5, the listening socket");
    }
    ATOLL_ASSIGN(
        *pass, PassGate(options.enter_root != 0 || options.session != 0, options.enter_root != 0));
    return {};
  }
  ATOLL_ASSIGN(*listener, ListenVsock(options.vsock_port));
  if (::fcntl(listener->get(), F_SETFL, O_RDWR | O_NONBLOCK) != 0) return FailSys("fcntl");
  const uint32_t peer = options.vsock_peer;
  ATOLL_ASSIGN(*control, ConnectVsock(peer, options.vsock_port + 1));
  *accept_peer = [peer](int socket) { return PeerIs(socket, peer); };
  return {};
}

}  // namespace atl::execd
