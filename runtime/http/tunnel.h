// Moves bytes in both directions between a client connection and an upstream that has switched
// protocols. Internal to this folder.
#pragma once

#include <memory>

#include "runtime/http/buffer.h"
#include "runtime/http/server.h"
#include "runtime/http/stream.h"

namespace atl::http {

class Connection;

// `from_upstream`: what the upstream has sent after its head. The end of one side is passed on as a
// half-close. The tunnel ends when both sides have ended, or at once after an error; then `held` is
// released. `tap` may be null. If the connection is revoked, the upstream is closed, and the client
// of a WebSocket gets a close frame (1008) if no frame is being sent. Other clients, and a client
// that does not answer for half a second, are reset.
void StartTunnel(const std::shared_ptr<Connection>& connection, std::shared_ptr<Stream> upstream,
                 Buffer from_upstream, std::shared_ptr<const void> held,
                 std::shared_ptr<TunnelTap> tap, bool web_socket);

}  // namespace atl::http
