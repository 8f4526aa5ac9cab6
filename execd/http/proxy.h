// The reverse proxy: /proxy/{port}/… leads to a server in the sandbox. Streams HTTP and WebSocket
// in both directions. Tries the port on 127.0.0.1, then ::1, then the sandbox's own addresses,
// because development servers listen on any of these.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

// Forwards the request, with `target` as its target, to the peer of `connected`, a connected
// non-blocking socket.
void ForwardTo(Core* core, const std::shared_ptr<Exchange>& exchange, UniqueFd connected,
               std::string target);

void Proxy(Core* core, const std::shared_ptr<Exchange>& exchange);

// GET /forward/{port} with "Upgrade: tcp": connects to that port, and after the 101 answer carries
// the bytes of any protocol. Answers 502 if no server listens. The connection ends when the server
// closes its side, or when both sides are closed.
void ForwardPort(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
