// sd_notify(3) without the library: one datagram to $NOTIFY_SOCKET.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atl {

// "READY=1", "STOPPING=1". Without systemd, or if it does not listen: nothing.
void NotifySystemd(std::string_view state);

// What says that the configuration is being read again; READY=1 ends it.
std::string ReloadingState();

// How often systemd wants "WATCHDOG=1" at the least (sd_watchdog_enabled(3)); 0: not at all.
int64_t WatchdogMicros();

}  // namespace atl
