// TCP on the sandbox's 127.0.0.1.
#pragma once

#include <netinet/in.h>

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// Returns 127.0.0.1 with that port.
sockaddr_in LoopbackAddress(uint16_t port);

// Opens a close-on-exec, non-blocking TCP socket.
Result<UniqueFd> OpenTcpSocket();

// Binds the socket to a port that the kernel chooses, and returns the port.
Result<uint16_t> BindLoopback(int socket);

}  // namespace atl::execd
