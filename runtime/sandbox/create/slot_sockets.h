// The two sockets between the daemon and a sandbox's execd: the control socket, and the named
// listener of the exec API, to which the proxy connects. Both are made with the slot, before its
// sandbox is known; the listener is renamed when a sandbox gets the slot.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {

struct SlotSockets {
  UniqueFd control;  // the daemon's end
  UniqueFd execd_control;
  UniqueFd execd_listener;
};
// Opens the sockets of a slot. `directory` belongs to the daemon's user, mode 0700. Replaces
// leftovers of an earlier owner of the slot.
Result<SlotSockets> OpenSlotSockets(const std::string& directory, uint32_t slot);
// Renames the listener to SocketPath(directory, id) (socket_path.h).
Status NameSlotSocket(const std::string& directory, uint32_t slot, const std::string& id);
void RemoveSlotSocket(const std::string& directory, uint32_t slot);

}  // namespace atl::sandbox
