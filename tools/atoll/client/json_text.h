// Reads JSON from the server.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

// Parses the body of an answer, which must be an object.
Result<nlohmann::json> ObjectOf(const http::Response& response);
// Sends a GET and parses the body.
Result<nlohmann::json> Fetch(Api& api, const std::string& target);
// Fetches the items of all pages of a list. `query` is "" or begins with "&".
Result<nlohmann::json> FetchPages(Api& api, const std::string& route, const std::string& query);
// Returns a member's text, or its JSON if it is no text; empty if it is absent.
std::string TextOf(const nlohmann::json& object, const char* name);

// Returns a time member, to the second: "2026-01-31T12:00:00Z"; "" if it is absent.
std::string TimeOf(const nlohmann::json& object, const char* name);

}  // namespace atl::cli
