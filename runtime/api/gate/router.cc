#include "runtime/api/gate/router.h"

#include <optional>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr std::string_view kVersionPrefix = "/v1";

std::vector<std::string> SplitPattern(std::string_view pattern) {
  std::vector<std::string> segments;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);  // '/'
    const size_t end = std::min(pattern.find('/'), pattern.size());
    segments.emplace_back(pattern.substr(0, end));
    pattern.remove_prefix(end);
  }
  return segments;
}

bool IsPlaceholder(std::string_view segment) {
  return segment.starts_with('{');
}

// Returns the decoded placeholders if `path` matches.
std::optional<std::vector<std::string>> MatchPath(const std::vector<std::string>& pattern,
                                                  std::string_view path) {
  std::vector<std::string> args;
  for (const std::string& segment : pattern) {
    if (path.empty() || path.front() != '/') return std::nullopt;
    path.remove_prefix(1);
    const bool takes_rest = segment.ends_with(":path}");
    const size_t end = takes_rest ? path.size() : std::min(path.find('/'), path.size());
    const std::string_view here = path.substr(0, end);
    path.remove_prefix(end);
    if (!IsPlaceholder(segment)) {
      if (here != segment) return std::nullopt;
      continue;
    }
    std::string decoded;
    if (here.empty() || !http::PercentDecode(here, &decoded)) return std::nullopt;
    args.push_back(std::move(decoded));
  }
  if (!path.empty()) return std::nullopt;
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
  routes_.push_back({std::move(method), pattern, SplitPattern(pattern), std::move(handle), rights});
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
  for (const Route& route : routes_) {
    auto args = MatchPath(route.segments, path);
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
