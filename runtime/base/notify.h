// sd_notify(3) and sd_listen_fds(3) without the library: one datagram to $NOTIFY_SOCKET, and the
// descriptors that systemd has kept for this start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/unique_fd.h"

namespace atl {

// "READY=1", "STOPPING=1". Without systemd, or if it does not listen: nothing.
void NotifySystemd(std::string_view state);

// The same with a descriptor, which the unit's next start gets ("FDSTORE=1\nFDNAME=…"; at most
// FileDescriptorStoreMax= of them; given up when the unit is stopped, and not started again).
void NotifySystemd(std::string_view state, int fd);
// What was stored under that name; none if nothing was, or for another process.
UniqueFd TakeStored(std::string_view name);

// What says that the configuration is being read again; READY=1 ends it.
std::string ReloadingState();

// How often systemd wants "WATCHDOG=1" at the least (sd_watchdog_enabled(3)); 0: not at all.
int64_t WatchdogMicros();

}  // namespace atl
