#include "runtime/tenants/identity.h"

#include <fnmatch.h>

#include <algorithm>

namespace atl::tenants {

Status CheckRouteRule(const std::string& rule) {
  constexpr size_t kMostOfRule = 200;
  const size_t space = rule.find(' ');
  const bool sound =
      space != std::string::npos && rule.size() <= kMostOfRule && space != 0 &&
      (rule.compare(space + 1, 1, "/") == 0 || rule.compare(space + 1, 1, "*") == 0) &&
      rule.find_first_of("[]\\") == std::string::npos;
  if (sound) return {};
  return Fail(Code::kInvalidArgument,
              "'" + rule.substr(0, kMostOfRule) +
                  "': a route is a method and a path, such as 'GET /metrics'; '*' stands for any "
                  "characters");
}

bool MatchesRoute(const std::vector<std::string>& rules, const std::string& route) {
  if (rules.empty()) return true;
  return std::any_of(rules.begin(), rules.end(), [&route](const std::string& rule) {
    return ::fnmatch(rule.c_str(), route.c_str(), FNM_NOESCAPE) == 0;
  });
}

}  // namespace atl::tenants
