// The reverse proxy's half of an exchange: see Exchange::Forward. Internal to this folder.
#pragma once

#include <memory>

#include "runtime/http/server.h"

namespace atl::http {

class Connection;

void StartForwarding(const std::shared_ptr<Connection>& connection, const Request& request,
                     Upstream upstream);

// The bytes of the head to send to the upstream: hop-by-hop and dropped fields left out,
// set_headers added, framing and upgrade as the client's. An error if the target or a set field
// cannot be written safely.
Result<std::string> UpstreamRequestHead(const Request& request, const Upstream& upstream,
                                        bool chunked, bool upgrade);

}  // namespace atl::http
