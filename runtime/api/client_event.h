// POST /metrics/events: what a client measured of its own work. Released SDKs send one after every
// create and read nothing of the answer.
#pragma once

#include <string>

#include "runtime/api/api_error.h"

namespace atl::api {

// Checks the form. Nothing of it is kept: what the daemon measures itself is in GET /metrics, and a
// client's word about it could only be wrong.
Parsed<void> CheckClientEvent(const std::string& body);

}  // namespace atl::api
