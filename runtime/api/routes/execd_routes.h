// The routes of execd, known here only to label metrics.
#pragma once

#include <string>
#include <string_view>

namespace atl::api {

// Returns the route of a target: "/command/{id}/logs" for "/command/7/logs?x". Empty if execd has
// no such route. `target` is undecoded, as execd gets it.
std::string ExecdRouteOf(std::string_view target);

}  // namespace atl::api
