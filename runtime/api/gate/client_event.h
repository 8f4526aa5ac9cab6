// POST /metrics/events: what a client measured of its own work. Released SDKs send one after every
// create and read nothing of the answer. GET /metrics has only what the daemon measures itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"

namespace atl::api {

struct ClientEvent {
  int64_t duration_ms = 0;  // of a create, until its sandbox was ready or it had failed
  bool success = false;
};
// The form is checked, also of what is not kept.
Parsed<ClientEvent> ParseClientEvent(const std::string& body);

// Whose word it is: "python", "1.1.1", of a User-Agent such as "OpenSandbox-Python-SDK/1.1.1";
// "unknown" twice for any other, and for one that is longer than such names are.
struct ClientSdk {
  std::string language = "unknown";  // letters and digits, in lower case
  std::string version = "unknown";   // visible ASCII
};
ClientSdk SdkOf(std::string_view user_agent);

}  // namespace atl::api
