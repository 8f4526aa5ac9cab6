// POST /metrics/events: a client's own measurement. Released SDKs send an event after every create
// and ignore the answer. GET /metrics reports only what the daemon measures itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"

namespace atl::api {

struct ClientEvent {
  int64_t duration_ms = 0;  // time of a create, until it was ready or had failed
  bool success = false;
};
// Checks the whole form, unused members included.
Parsed<ClientEvent> ParseClientEvent(const std::string& body);

// The SDK that sent a request, from its User-Agent: "python" and "1.1.1" for
// "OpenSandbox-Python-SDK/1.1.1". Both are "unknown" for any other User-Agent, and for one that is
// too long.
struct ClientSdk {
  std::string language = "unknown";  // letters and digits, in lower case
  std::string version = "unknown";   // visible ASCII
};
ClientSdk SdkOf(std::string_view user_agent);

}  // namespace atl::api
