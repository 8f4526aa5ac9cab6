#include "runtime/base/schedule.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>

namespace atl {
namespace {

constexpr int64_t kDay = 86400;
// The longest possible distance of a matching day: February 29th across the year 2100.
constexpr int64_t kSearchedDays = 366 * 8 + 1;
constexpr int64_t kMostSeconds = 366 * kDay;

struct Shorthand {
  std::string_view name;
  std::string_view fields;
};
constexpr Shorthand kShorthands[] = {{"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},
                                     {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
                                     {"@monthly", "0 0 1 * *"},  {"@yearly", "0 0 1 1 *"},
                                     {"@annually", "0 0 1 1 *"}};

// The names for the numbers of a field, from its first number on, three letters each.
constexpr std::string_view kMonths = "janfebmaraprmayjunjulaugsepoctnovdec";
constexpr std::string_view kWeekdays = "sunmontuewedthufrisat";

struct FieldForm {
  const char* what;
  uint32_t first, last;
  std::string_view names;
};
constexpr FieldForm kFields[] = {{"minute", 0, 59, {}},
                                 {"hour", 0, 23, {}},
                                 {"day of the month", 1, 31, {}},
                                 {"month", 1, 12, kMonths},
                                 {"day of the week", 0, 7, kWeekdays}};

std::string_view Cut(std::string_view* rest, char at) {
  const size_t end = std::min(rest->find(at), rest->size());
  const std::string_view piece = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return piece;
}

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::optional<uint32_t> Value(const FieldForm& form, std::string_view text) {
  if (text.size() == 3) {
    for (size_t i = 0; i * 3 < form.names.size(); ++i) {
      const std::string_view name = form.names.substr(i * 3, 3);
      const auto same = [](char typed, char known) { return (typed | 0x20) == known; };
      if (std::equal(text.begin(), text.end(), name.begin(), same)) {
        return form.first + static_cast<uint32_t>(i);
      }
    }
  }
  const auto number = Number(text);
  return number && *number >= form.first && *number <= form.last ? number : std::nullopt;
}

// Parses "a", "a-b" or "*", each with an optional "/step", to bits. Empty if malformed.
std::optional<uint64_t> Range(const FieldForm& form, std::string_view text) {
  const bool stepped = text.find('/') != std::string_view::npos;
  const std::string_view range = Cut(&text, '/');
  const auto step = stepped ? Number(text) : 1;
  uint32_t from = form.first, to = form.last;
  if (range != "*" && range != "?") {
    std::string_view rest = range;
    const auto low = Value(form, Cut(&rest, '-'));
    const auto high = range.find('-') == std::string_view::npos ? low : Value(form, rest);
    if (!low || !high) return std::nullopt;
    from = *low;
    to = stepped && range.find('-') == std::string_view::npos ? form.last : *high;
  }
  if (!step || *step == 0 || from > to) return std::nullopt;
  uint64_t bits = 0;
  for (uint64_t value = from; value <= to; value += *step) bits |= uint64_t{1} << value;
  return bits;
}

Error NotOne(std::string_view text, const std::string& why) {
  return {Code::kInvalidArgument, "schedule '" + std::string(text.substr(0, 80)) + "': " + why};
}

// Parses "1h30m". Returns 0 if it is malformed or out of bounds.
int64_t Seconds(std::string_view text) {
  int64_t seconds = 0;
  while (!text.empty()) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = Number(text.substr(0, digits));
    if (!number || digits == text.size()) return 0;
    const char unit = text[digits];
    const int64_t of = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
    if (of == 0 || *number > kMostSeconds / of) return 0;
    seconds += *number * of;
    text.remove_prefix(digits + 1);
  }
  return seconds <= kMostSeconds ? seconds : 0;
}

}  // namespace

Result<Schedule> Schedule::Parse(std::string_view text) {
  Schedule schedule;
  std::string_view rest = text;
  constexpr std::string_view kEvery = "@every ";
  if (rest.starts_with(kEvery)) {
    schedule.every_seconds_ = Seconds(rest.substr(kEvery.size()));
    if (schedule.every_seconds_ > 0) return schedule;
    return Fail(NotOne(text, "use whole seconds, minutes or hours, such as @every 30s"));
  }
  for (const Shorthand& known : kShorthands) {
    if (rest == known.name) rest = known.fields;
  }
  if (rest.starts_with('@')) {
    return Fail(NotOne(text, "use @every 30s, @hourly, @daily, @weekly, @monthly or @yearly"));
  }
  uint64_t* const bits[] = {&schedule.minutes_, &schedule.hours_, &schedule.days_,
                            &schedule.months_, &schedule.weekdays_};
  for (size_t i = 0; i < std::size(kFields); ++i) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    std::string_view field = Cut(&rest, ' ');
    if (field.empty()) {
      return Fail(NotOne(text, "use five fields: minute, hour, day, month, weekday"));
    }
    if (i == 2) schedule.any_day_ = field.starts_with('*') || field == "?";
    if (i == 4) schedule.any_weekday_ = field.starts_with('*') || field == "?";
    for (bool more = true; more;) {
      more = field.find(',') != std::string_view::npos;
      const auto range = Range(kFields[i], Cut(&field, ','));
      if (!range) {
        return Fail(NotOne(text, std::string("the ") + kFields[i].what + " is not from " +
                                     std::to_string(kFields[i].first) + " to " +
                                     std::to_string(kFields[i].last)));
      }
      *bits[i] |= *range;
    }
  }
  if (rest.find_first_not_of(' ') != std::string_view::npos) {
    return Fail(NotOne(text, "there are more than five fields"));
  }
  // Sunday is 0 and 7.
  schedule.weekdays_ |= schedule.weekdays_ >> 7 & 1;
  bool comes = false;
  for (int64_t day = 0; day < kSearchedDays && !comes; ++day) comes = schedule.HasDay(day);
  if (!comes) return Fail(NotOne(text, "no day ever matches"));
  return schedule;
}

bool Schedule::HasDay(int64_t day) const {
  const std::chrono::sys_days days{std::chrono::days(day)};
  const std::chrono::year_month_day date(days);
  if ((months_ >> static_cast<unsigned>(date.month()) & 1) == 0) return false;
  const bool on_day = days_ >> static_cast<unsigned>(date.day()) & 1;
  const bool on_weekday = weekdays_ >> std::chrono::weekday(days).c_encoding() & 1;
  return any_day_ || any_weekday_ ? on_day && on_weekday : on_day || on_weekday;
}

int64_t Schedule::After(int64_t unix_seconds) const {
  if (every_seconds_ > 0) return unix_seconds + every_seconds_;
  const int64_t first = unix_seconds / 60 + 1;  // unit: minutes
  for (int64_t day = first / 1440; day <= first / 1440 + kSearchedDays; ++day) {
    if (!HasDay(day)) continue;
    for (int64_t minute = std::max(first, day * 1440); minute < (day + 1) * 1440; ++minute) {
      const int64_t of_day = minute % 1440;
      if ((hours_ >> of_day / 60 & 1) && (minutes_ >> of_day % 60 & 1)) return minute * 60;
    }
  }
  return INT64_MAX;  // not reached: Parse has found a day within this distance
}

}  // namespace atl
