#include "runtime/api/routes/execd_routes.h"

#include <algorithm>
#include <vector>

namespace atl::api {
namespace {

constexpr std::string_view kRoutes[] = {
    "/ping",
    "/metrics",
    "/metrics/watch",
    "/processes",
    "/entrypoint/signal",
    "/command",
    "/command/status/{id}",
    "/command/{id}/logs",
    "/session",
    "/session/{id}",
    "/session/{id}/run",
    "/pty",
    "/pty/{id}",
    "/pty/{id}/ws",
    "/code",
    "/code/context",
    "/code/contexts",
    "/code/contexts/{id}",
    "/files/grep",
    "/files/watch",
    "/directories/tar",
    "/forward/{port}",
    "/v1/isolated/capabilities",
    "/v1/isolated/sessions",
    "/v1/isolated/session",
    "/v1/isolated/session/{id}",
    "/v1/isolated/session/{id}/run",
    "/v1/isolated/session/{id}/runs/{id}",
    "/v1/isolated/session/{id}/runs/{id}/logs",
    "/v1/isolated/session/{id}/diff",
    "/v1/isolated/session/{id}/commit",
};
// File routes exist without a prefix and below each prefix.
constexpr std::string_view kFileRoutes[] = {
    "/files",         "/files/info",     "/files/permissions", "/files/mv",    "/files/search",
    "/files/replace", "/files/download", "/files/upload",      "/directories", "/directories/list",
};
constexpr std::string_view kFilePrefixes[] = {"", "/v1/filesystem/{uid}/{gid}",
                                              "/v1/isolated/session/{id}"};

std::vector<std::string> AllRoutes() {
  std::vector<std::string> all(std::begin(kRoutes), std::end(kRoutes));
  for (const std::string_view prefix : kFilePrefixes) {
    for (const std::string_view route : kFileRoutes) {
      all.push_back(std::string(prefix).append(route));
    }
  }
  return all;
}

std::string_view TakeSegment(std::string_view* path) {
  path->remove_prefix(1);  // '/'
  const std::string_view segment = path->substr(0, path->find('/'));
  path->remove_prefix(segment.size());
  return segment;
}

bool Fits(std::string_view route, std::string_view path) {
  while (route.starts_with('/') && path.starts_with('/')) {
    const std::string_view wanted = TakeSegment(&route);
    const std::string_view segment = TakeSegment(&path);
    const bool any = wanted.starts_with('{');
    if (any ? segment.empty() : segment != wanted) return false;
  }
  return route.empty() && path.empty();
}

}  // namespace

std::string ExecdRouteOf(std::string_view target) {
  static const std::vector<std::string> routes = AllRoutes();
  const std::string_view path = target.substr(0, target.find('?'));
  const auto found = std::find_if(routes.begin(), routes.end(),
                                  [path](const std::string& route) { return Fits(route, path); });
  return found == routes.end() ? std::string() : *found;
}

}  // namespace atl::api
