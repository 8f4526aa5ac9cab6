// Carries bytes both ways between a client connection and an upstream that has switched protocols.
// Internal to this folder.
#pragma once

#include <memory>

#include "runtime/http/buffer.h"
#include "runtime/http/stream.h"

namespace atl::http {

class Connection;

// `from_upstream` holds what the upstream sent after its head. An end of either side is passed on
// as a half-close; the tunnel ends when both have ended, or at once at an error. `held` is let go
// then.
void StartTunnel(const std::shared_ptr<Connection>& connection, std::shared_ptr<Stream> upstream,
                 Buffer from_upstream, std::shared_ptr<const void> held);

}  // namespace atl::http
