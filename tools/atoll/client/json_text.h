// JSON of the server, read and written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"

namespace atl::cli {

// The body of an answer, which must be an object.
Result<nlohmann::json> ObjectOf(const http::Response& response);
// GET and its body.
Result<nlohmann::json> Fetch(Api& api, const std::string& target);
// The items of all pages of a list. `query`: "&" and more of it, or nothing.
Result<nlohmann::json> FetchPages(Api& api, const std::string& route, const std::string& query);
// A member that is text, or its JSON; empty if there is none.
std::string TextOf(const nlohmann::json& object, const char* name);

// The time of the API under that name, to the second: "2026-01-31T12:00:00Z"; "" without one.
std::string TimeOf(const nlohmann::json& object, const char* name);

}  // namespace atl::cli
