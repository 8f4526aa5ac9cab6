// sd_notify(3) and sd_listen_fds(3) without the library: sends one datagram to $NOTIFY_SOCKET, and
// takes the descriptors that systemd has stored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/unique_fd.h"

namespace atl {

// Sends a state such as "READY=1" or "STOPPING=1". Does nothing without systemd, or if it does not
// listen.
void NotifySystemd(std::string_view state);

// Sends a state with a descriptor that the unit's next start gets back ("FDSTORE=1\nFDNAME=…").
// systemd keeps at most FileDescriptorStoreMax= of them, and closes them when the unit is stopped
// and not started again.
void NotifySystemd(std::string_view state, int fd);
// Returns the descriptor that was stored under that name. Invalid if there is none, or if it is for
// another process.
UniqueFd TakeStored(std::string_view name);

// Returns the state that announces a reload of the configuration. READY=1 ends it.
std::string ReloadingState();

// Returns the interval in which systemd expects "WATCHDOG=1" (sd_watchdog_enabled(3)), 0 if it does
// not.
int64_t WatchdogMicros();

}  // namespace atl
