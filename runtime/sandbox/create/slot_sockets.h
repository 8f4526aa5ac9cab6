// The two sockets between the daemon and a sandbox's execd: the control socket and the exec API's,
// which has a name for the proxy to connect to. Both are made with the slot, before it is known
// whose they will be; the name changes when it is.
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
// `directory` belongs to the daemon's user, mode 0700. What an earlier owner of the slot has left
// is replaced.
Result<SlotSockets> OpenSlotSockets(const std::string& directory, uint32_t slot);
// From here on the listener is found under SocketPath(directory, id) (socket_path.h).
Status NameSlotSocket(const std::string& directory, uint32_t slot, const std::string& id);
void RemoveSlotSocket(const std::string& directory, uint32_t slot);

}  // namespace atl::sandbox
