#include "runtime/sandbox/create/slot_sockets.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/descriptors.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/sandbox/record/socket_path.h"

namespace atl::sandbox {
namespace {

// Connections that wait for execd to start, or to accept.
constexpr int kBacklog = 128;

Result<UniqueFd> ListenAt(const std::string& path) {
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path));
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener) return FailSys("socket");
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("bind " + path);
  }
  if (::listen(listener.get(), kBacklog) != 0) return FailSys("listen " + path);
  return listener;
}

std::string SlotSocketPath(const std::string& directory, uint32_t slot) {
  return directory + "/slot-" + std::to_string(slot) + ".sock";
}

}  // namespace

Result<SlotSockets> OpenSlotSockets(const std::string& directory, uint32_t slot) {
  RemoveSlotSocket(directory, slot);
  SlotSockets sockets;
  ATOLL_ASSIGN(sockets.execd_listener, ListenAt(SlotSocketPath(directory, slot)));
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_STREAM));
  sockets.control = std::move(pair.a);
  sockets.execd_control = std::move(pair.b);
  // The socket stays open as long as the sandbox exists.
  if (IsPastSandboxes(sockets.control.get())) {
    RemoveSlotSocket(directory, slot);
    return Fail(NoDescriptors("another sandbox", sockets.control.get()));
  }
  return sockets;
}

Status NameSlotSocket(const std::string& directory, uint32_t slot, const std::string& id) {
  const std::string from = SlotSocketPath(directory, slot);
  if (::rename(from.c_str(), SocketPath(directory, id).c_str()) != 0) {
    return FailSys("rename " + from);
  }
  return {};
}

void RemoveSlotSocket(const std::string& directory, uint32_t slot) {
  ::unlink(SlotSocketPath(directory, slot).c_str());
}

}  // namespace atl::sandbox
