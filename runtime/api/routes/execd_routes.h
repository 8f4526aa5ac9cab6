// The routes of execd, for metrics alone: which of them a request into a sandbox is one of.
#pragma once

#include <string>
#include <string_view>

namespace atl::api {

// "/command/{id}/logs" of "/command/7/logs?x"; empty if execd has no such route. `target`: as execd
// gets it, not decoded.
std::string ExecdRouteOf(std::string_view target);

}  // namespace atl::api
