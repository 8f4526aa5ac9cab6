// TCP on the sandbox's own 127.0.0.1.
#pragma once

#include <netinet/in.h>

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// 127.0.0.1 with that port.
sockaddr_in LoopbackAddress(uint16_t port);

// Close-on-exec, and does not block.
Result<UniqueFd> OpenTcpSocket();

// Binds it to a port that the kernel chooses, and returns that.
Result<uint16_t> BindLoopback(int socket);

}  // namespace atl::execd
