// Keeps contents from callers who may only read names and states (auditors).
#pragma once

#include <optional>
#include <string_view>

#include "runtime/http/message.h"

namespace atl::api {

// Returns the answer with ids, names, states, reasons, times and sizes alone. A member that is not
// known to be one of these is left out, at any depth, so a member that is added later is contents
// until somebody decides that it is none. Labels keep their names, and "name" its value. An answer
// that is not JSON becomes 403. Refusals (4xx, 5xx) pass: they are about the request.
http::Response NamesOnly(http::Response answer);

// Returns the refusal, 403, of a query that selects objects by their labels: each answer would tell
// whether a guess of a value is right.
std::optional<http::Response> RefuseLabelFilter(std::string_view query);

}  // namespace atl::api
