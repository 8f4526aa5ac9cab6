#include "runtime/api/gate/json.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <ctime>

#include "runtime/api/gate/validation.h"
#include "runtime/base/json_text.h"
#include "runtime/base/utc_time.h"

namespace atl::api {
namespace {

using nlohmann::json;

http::Response NotJson(size_t at, const std::string& why) {
  Problems problems;
  problems.Add(
      {"json_invalid", {"body", at}, "JSON decode error", "{}", JsonText({{"error", why}})});
  return problems.ToResponse();
}

// Reads exactly `count` digits at `*at`.
bool TakeDigits(std::string_view text, size_t* at, size_t count, int* value) {
  *value = 0;
  for (size_t i = 0; i < count; ++i, ++*at) {
    if (*at >= text.size() || text[*at] < '0' || text[*at] > '9') return false;
    *value = *value * 10 + (text[*at] - '0');
  }
  return true;
}

bool TakeOne(std::string_view text, size_t* at, std::string_view any_of) {
  if (*at >= text.size() || any_of.find(text[*at]) == std::string_view::npos) return false;
  ++*at;
  return true;
}

bool ParseOffset(std::string_view text, size_t* at, int64_t* seconds) {
  *seconds = 0;
  if (*at == text.size() || TakeOne(text, at, "Zz")) return true;
  const bool west = *at < text.size() && text[*at] == '-';
  int hours = 0;
  int minutes = 0;
  if (!TakeOne(text, at, "+-") || !TakeDigits(text, at, 2, &hours)) return false;
  TakeOne(text, at, ":");
  if (!TakeDigits(text, at, 2, &minutes) || hours > 23 || minutes > 59) return false;
  *seconds = (hours * 60 + minutes) * 60 * (west ? -1 : 1);
  return true;
}

}  // namespace

http::Response JsonResponse(int status, const json& body) {
  http::Response response;
  response.status = status;
  response.headers.Set("Content-Type", "application/json");
  response.body = JsonText(body);
  return response;
}

Parsed<json> ParseBody(const std::string& text) {
  if (text.empty()) {
    Problems problems;
    problems.Add({"missing", {"body"}, "Field required", "null", {}});
    return Refuse(problems.ToResponse());
  }
  size_t at = 0;
  auto body = ParseJson(text, kMaxJsonLevels, &at);
  if (!body) return Refuse(NotJson(at, body.error().message()));
  return *std::move(body);
}

std::string FormatTime(int64_t unix_ms) {
  const std::chrono::milliseconds time(unix_ms);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const std::chrono::nanoseconds fraction = time - seconds;
  return std::string(
      UtcTime(seconds.count(), fraction.count(), fraction.count() == 0 ? 0 : 6).text());
}

bool ParseTime(std::string_view text, int64_t* unix_ms) {
  size_t at = 0;
  tm utc{};
  int year = 0;
  int month = 0;
  const bool form = TakeDigits(text, &at, 4, &year) && TakeOne(text, &at, "-") &&
                    TakeDigits(text, &at, 2, &month) && TakeOne(text, &at, "-") &&
                    TakeDigits(text, &at, 2, &utc.tm_mday) && TakeOne(text, &at, "Tt ") &&
                    TakeDigits(text, &at, 2, &utc.tm_hour) && TakeOne(text, &at, ":") &&
                    TakeDigits(text, &at, 2, &utc.tm_min);
  if (!form) return false;
  if (TakeOne(text, &at, ":") && !TakeDigits(text, &at, 2, &utc.tm_sec)) return false;
  int64_t millis = 0;
  if (TakeOne(text, &at, ".,")) {
    const size_t from = at;
    int64_t unit = 100;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      millis += (text[at++] - '0') * unit;
      unit /= 10;
    }
    if (at == from || at - from > 9) return false;
  }
  int64_t offset = 0;
  if (!ParseOffset(text, &at, &offset) || at != text.size()) return false;
  utc.tm_year = year - 1900;
  utc.tm_mon = month - 1;
  const tm asked = utc;
  const time_t seconds = timegm(&utc);
  // timegm normalises invalid dates such as 31 February. If the result differs from the input, the
  // input was no date.
  if (utc.tm_mday != asked.tm_mday || utc.tm_mon != asked.tm_mon || utc.tm_hour != asked.tm_hour ||
      utc.tm_min != asked.tm_min || utc.tm_sec != asked.tm_sec) {
    return false;
  }
  *unix_ms = (static_cast<int64_t>(seconds) - offset) * 1000 + millis;
  return true;
}

}  // namespace atl::api
