// The two sockets between the daemon and a sandbox's execd: the control socket and the exec API's,
// which has a name for the proxy to connect to. Both are made with the slot, before it is known
// whose they will be; the name changes when it is.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {

// Its sockets' names must fit sockaddr_un: with "/<id>.sock" behind it, 107 bytes.
inline constexpr size_t kMaxSocketDirectory = 107 - 1 - 36 - 5;
std::string SocketPath(const std::string& directory, const std::string& id);

struct SlotSockets {
  UniqueFd control;  // the daemon's end
  UniqueFd execd_control;
  UniqueFd execd_listener;
};
// `directory` belongs to the daemon's user, mode 0700. What an earlier owner of the slot has left
// is replaced.
Result<SlotSockets> OpenSlotSockets(const std::string& directory, uint32_t slot);
// From here on the listener is found under SocketPath(directory, id).
Status NameSlotSocket(const std::string& directory, uint32_t slot, const std::string& id);
void RemoveSlotSocket(const std::string& directory, uint32_t slot);

}  // namespace atl::sandbox
