#include "runtime/api/requests/key_request.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "images/allowed.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/tenants/quota_text.h"

namespace atl::api {
namespace {

constexpr size_t kMaxName = 63;
constexpr size_t kMostRules = 64;
constexpr int64_t kMostSeconds = 10LL * 365 * 24 * 3600;

// Returns the seconds of "90s", "5m", "24h" or "2d".
std::optional<int64_t> SecondsOf(std::string_view text) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostGraceSeconds ||
      rest + 1 != text.data() + text.size()) {
    return std::nullopt;
  }
  switch (*rest) {
    case 's':
      return number;
    case 'm':
      return number * 60;
    case 'h':
      return number * 3600;
    case 'd':
      return number * 24 * 3600;
    default:
      return std::nullopt;
  }
}

template <typename Check>
void ReadRules(const Field& field, std::vector<std::string>* rules, Check check) {
  if (!field.Strings(0, rules)) return;
  if (rules->size() > kMostRules) {
    return field.Complain("too_long",
                          "List should have at most " + std::to_string(kMostRules) + " items");
  }
  for (std::string& rule : *rules) {
    const Status sound = check(&rule);
    if (!sound) field.Complain("value_error", sound.error().message());
  }
}

}  // namespace

Parsed<tenants::KeyRequest> ParseKeyRequest(const std::string& text, const std::string& tenant) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  tenants::KeyRequest request{.tenant = tenant};
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  std::string word;
  const Field role = body.At("role");
  if (role.Word(&word)) {
    if (const auto known = tenants::ParseRole(word)) {
      request.role = *known;
    } else {
      role.Complain("enum", "Use viewer, developer, operator, auditor or admin");
    }
  } else if (!role.present() && tenant.empty()) {
    role.Missing();
  }
  const Field name = body.At("name");
  if (name.String(&request.name)) {
    const bool visible = std::all_of(request.name.begin(), request.name.end(),
                                     [](char c) { return c >= ' ' && c <= '~'; });
    if (request.name.size() > kMaxName || !visible) {
      name.Complain("value_error", "Use at most 63 printable ASCII characters");
    }
  }
  int64_t seconds = 0;
  const Field expiry = body.At("expiresInSeconds");
  if (expiry.Integer(&seconds)) {
    if (seconds < 0 || seconds > kMostSeconds) {
      expiry.Complain("value_error", "Use 0 for never, or up to " + std::to_string(kMostSeconds));
    }
    request.lifetime_ms = seconds * 1000;
  }
  ReadRules(body.At("routes"), &request.narrowing.routes,
            [](std::string* rule) { return tenants::CheckRouteRule(*rule); });
  ReadRules(body.At("images"), &request.narrowing.images, [](std::string* rule) -> Status {
    ATOLL_ASSIGN(*rule, images::CheckAllowedRule(*rule));
    return {};
  });
  std::map<std::string, std::string> max;
  const Field limits = body.At("max");
  if (limits.StringMap(true, &max)) {
    for (const auto& [key, value] : max) {
      const Status set = tenants::SetQuota(key, value, &request.narrowing.max);
      if (!set) limits.At(key).Complain("value_error", set.error().message());
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return request;
}

Parsed<int64_t> ParseGrace(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return 0;
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  std::string grace = "0s";
  std::optional<int64_t> seconds;
  if (body.IsRequiredObject()) {
    const Field field = body.At("grace");
    field.String(&grace);
    seconds = SecondsOf(grace);
    if (!seconds || *seconds > kMostGraceSeconds) {
      field.Complain("value_error", "Use a number and s, m, h or d, such as 24h, up to 30d");
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return *seconds * 1000;
}

}  // namespace atl::api
