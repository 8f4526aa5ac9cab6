// The reverse proxy, see Exchange::Forward. Internal to this folder.
#pragma once

#include <memory>

#include "runtime/http/server.h"

namespace atl::http {

class Connection;

void StartForwarding(const std::shared_ptr<Connection>& connection, const Request& request,
                     Upstream upstream);

// Returns the request head for the upstream: without hop-by-hop and dropped fields, with
// set_headers, and with the client's framing and upgrade. Fails if the target or a set field cannot
// be written safely.
Result<std::string> UpstreamRequestHead(const Request& request, const Upstream& upstream,
                                        bool chunked, bool upgrade);

}  // namespace atl::http
