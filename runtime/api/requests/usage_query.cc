#include "runtime/api/requests/usage_query.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/http/message.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr size_t kMaxLabelKey = 256;
// The last second that FormatTime can write.
constexpr int64_t kMaxTimeMs = 253402300799000;

using By = tenants::UsageQuery::By;
using tenants::kHourMs;

void Complain(const char* name, const std::string& value, const char* msg, Problems* problems) {
  problems->Add({.type = "value_error",
                 .loc = {"query", name},
                 .msg = msg,
                 .input = JsonText(value.substr(0, 80)),
                 .ctx = ""});
}

void ReadTime(const char* name, const std::string& value, int64_t* time_ms, Problems* problems) {
  if (ParseTime(value, time_ms) && *time_ms >= 0 && *time_ms <= kMaxTimeMs) return;
  Complain(name, value, "use a time such as 2026-11-28T05:00:00Z", problems);
}

void ReadBy(const std::string& value, tenants::UsageQuery* query, Problems* problems) {
  constexpr std::string_view kLabel = "label:";
  if (value.starts_with(kLabel) && value.size() > kLabel.size() &&
      value.size() <= kLabel.size() + kMaxLabelKey) {
    query->by = By::kLabel;
    query->label = value.substr(kLabel.size());
  } else if (value == "tenant") {
    query->by = By::kTenant;
  } else if (value == "image") {
    query->by = By::kImage;
  } else if (value == "sandbox") {
    query->by = By::kSandbox;
  } else {
    Complain("by", value, "use tenant, image, sandbox or label:KEY", problems);
  }
}

void ReadStep(const std::string& value, tenants::UsageQuery* query, Problems* problems) {
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  const bool hours = rest != end && rest + 1 == end && *rest == 'h';
  const bool days = rest != end && rest + 1 == end && *rest == 'd';
  if (error != std::errc() || number < 1 || number > 8784 || (!hours && !days)) {
    return Complain("step", value, "use hours or days, such as 1h or 7d", problems);
  }
  query->step_hours = number * (days ? 24 : 1);
}

}  // namespace

Parsed<tenants::UsageQuery> ParseUsageQuery(std::string_view text, int64_t now_ms) {
  tenants::UsageQuery query;
  query.since_ms = now_ms - 24 * kHourMs;
  query.until_ms = now_ms;
  Problems problems;
  for (const auto& [name, value] : http::ParseQuery(text)) {
    if (name == "since") ReadTime("since", value, &query.since_ms, &problems);
    if (name == "until") ReadTime("until", value, &query.until_ms, &problems);
    if (name == "by") ReadBy(value, &query, &problems);
    if (name == "step") ReadStep(value, &query, &problems);
  }
  if (query.until_ms < query.since_ms) {
    Complain("until", FormatTime(query.until_ms), "it is before since", &problems);
  } else if (query.step_hours != 0 &&
             (query.until_ms - query.since_ms) / kHourMs / query.step_hours >= kMaxSteps) {
    Complain("step", std::to_string(query.step_hours) + "h", "it makes more than 1000 steps",
             &problems);
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return query;
}

}  // namespace atl::api
