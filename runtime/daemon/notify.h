// sd_notify(3) without the library: one datagram to $NOTIFY_SOCKET.
#pragma once

#include <string_view>

namespace atl::daemon {

// "READY=1", "STOPPING=1". Without systemd, or if it does not listen: nothing.
void NotifySystemd(std::string_view state);

}  // namespace atl::daemon
