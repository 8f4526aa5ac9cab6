#include "runtime/api/gate/router.h"

#include <optional>
#include <utility>

#include "runtime/api/gate/path_pattern.h"
#include "runtime/base/log.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr std::string_view kVersionPrefix = "/v1";

// Decodes what stands for the placeholders of a pattern. Returns nothing if a place is empty or
// cannot be decoded.
std::optional<std::vector<std::string>> Decoded(const std::vector<std::string_view>& places) {
  std::vector<std::string> args(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].empty() || !http::PercentDecode(places[i], &args[i])) return std::nullopt;
  }
  return args;
}

}  // namespace

void Router::Add(std::string method, const std::string& pattern, Handle handle) {
  const Rights* rights = RightsOf(method, pattern);
  if (rights == nullptr) {
    LogLine(LogLevel::kError, "the table of rights (rights.cc) has no row for a route")
        .Add("route", method + " " + pattern);
  }
  ATOLL_CHECK(rights != nullptr);
  routes_.push_back({std::move(method), pattern, std::move(handle), rights});
}

std::vector<std::pair<std::string, std::string>> Router::All() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Route& route : routes_) all.emplace_back(route.method, route.pattern);
  return all;
}

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  if (path.starts_with(kVersionPrefix) && path.size() > kVersionPrefix.size() &&
      path[kVersionPrefix.size()] == '/') {
    path.remove_prefix(kVersionPrefix.size());
  }
  Match match;
  std::vector<std::string_view> places;
  for (const Route& route : routes_) {
    if (!FitsPattern(route.pattern, path, &places)) continue;
    auto args = Decoded(places);
    if (!args) continue;
    if (match.pattern.empty()) match.pattern = route.pattern;
    if (route.method != method) {
      match.other_methods.push_back(route.method);
      continue;
    }
    match.handle = &route.handle;
    match.rights = route.rights;
    match.pattern = route.pattern;
    match.args = std::move(*args);
    return match;
  }
  return match;
}

}  // namespace atl::api
