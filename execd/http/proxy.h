// The reverse proxy: /proxy/{port}/… to a server in the sandbox, HTTP and WebSocket, streamed both
// ways. The port is tried on 127.0.0.1, then ::1, then the sandbox's own addresses: development
// servers listen on any of these.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

// To whoever is at the other end of a connected socket that does not block, as `target`.
void ForwardTo(Core* core, const std::shared_ptr<Exchange>& exchange, UniqueFd connected,
               std::string target);

void Proxy(Core* core, const std::shared_ptr<Exchange>& exchange);

// GET /forward/{port} with "Upgrade: tcp": what follows the 101 are the bytes of a connection to
// that port, whatever it speaks. 502 if nobody listens. The connection ends when the server's side
// does, or when both have.
void ForwardPort(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
