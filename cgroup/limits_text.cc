#include "cgroup/limits_text.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "runtime/base/project_quota.h"

namespace atl::cgroup {
namespace {

constexpr char kDisk[] = "disk";
constexpr char kEphemeralStorage[] = "ephemeral-storage";

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Accepts only decimal digits: no sign, no space, no overflow.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return value;
}

struct Unit {
  std::string_view suffix;
  uint64_t factor;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", 1000},
    {"kb", 1000},
    {"m", 1000 * 1000},
    {"mb", 1000 * 1000},
    {"g", 1000 * 1000 * 1000},
    {"gb", 1000 * 1000 * 1000},
    {"t", 1000ULL * 1000 * 1000 * 1000},
    {"tb", 1000ULL * 1000 * 1000 * 1000},
    {"ki", 1ULL << 10},
    {"kib", 1ULL << 10},
    {"mi", 1ULL << 20},
    {"mib", 1ULL << 20},
    {"gi", 1ULL << 30},
    {"gib", 1ULL << 30},
    {"ti", 1ULL << 40},
    {"tib", 1ULL << 40},
};

// Quotes untrusted text for an error message, shortened.
std::string Quote(std::string_view text) {
  constexpr size_t kShown = 64;
  std::string quoted = "'";
  quoted.append(text.substr(0, kShown));
  if (text.size() > kShown) quoted.append("…");
  quoted.push_back('\'');
  return quoted;
}

Error Bad(std::string_view key, const Error& why) {
  return Error(Code::kInvalidArgument, "resourceLimits." + std::string(key) + " " + why.message());
}

std::string Allowed(const LimitField& field) {
  const char* form = "";
  switch (field.kind) {
    case LimitKind::kBytes:
      form = "a whole number with an optional unit (k, m, g, t, Ki, Mi, Gi, Ti)";
      break;
    case LimitKind::kCount:
      form = "a whole number";
      break;
    case LimitKind::kCpu:
      form = "a number of CPUs such as 1 or 0.5, or thousandths such as 500m";
      break;
  }
  return std::string(form) + ", from " + LimitText(field, field.smallest) + " to " +
         LimitText(field, field.largest);
}

std::optional<uint64_t> ParseCpuMillis(std::string_view text) {
  if (!text.empty() && text.back() == 'm') return ParseNumber(text.substr(0, text.size() - 1));
  // Parsed by hand, because strtod has a locale, hexadecimal, infinity and rounding.
  const size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view fraction =
      dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
  if (dot != std::string_view::npos && whole.empty() && fraction.empty()) return std::nullopt;
  const auto cores = whole.empty() && !fraction.empty() ? 0 : ParseNumber(whole);
  if (!cores || *cores > UINT32_MAX || fraction.size() > 9 ||
      fraction.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  // The unit is a thousandth. Further digits are cut off.
  std::string thousandths(fraction.substr(0, 3));
  thousandths.resize(3, '0');
  return *cores * 1000 + *ParseNumber(thousandths);
}

std::optional<uint64_t> ParseValue(LimitKind kind, std::string_view text) {
  switch (kind) {
    case LimitKind::kBytes:
      if (const auto bytes = ParseBytes(text)) return *bytes;
      return std::nullopt;
    case LimitKind::kCount:
      return ParseNumber(text);
    case LimitKind::kCpu:
      return ParseCpuMillis(text);
  }
  return std::nullopt;
}

std::vector<const LimitField*> FieldsOf(std::string_view key) {
  std::vector<const LimitField*> fields;
  if (key == kEphemeralStorage) key = kDisk;
  for (const LimitField& field : kLimitFields) {
    if (key == field.key) fields.push_back(&field);
  }
  return fields;
}

// Parses "rbps=10Mi,wiops=100". Each of `fields` may occur at most once.
Status ParseList(const std::vector<const LimitField*>& fields, std::string_view text,
                 Limits* limits) {
  std::string allowed = ": a comma-separated list of ";
  for (const LimitField* field : fields) allowed.append(field->name).append("=, ");
  const Error malformed(Code::kInvalidArgument, Quote(text) + allowed + "each at most once");
  std::vector<const LimitField*> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const size_t equals = item.find('=');
    const auto found = std::find_if(fields.begin(), fields.end(), [&](const LimitField* field) {
      return item.substr(0, equals) == field->name;
    });
    if (equals == std::string_view::npos || found == fields.end() ||
        std::find(seen.begin(), seen.end(), *found) != seen.end()) {
      return Fail(malformed);
    }
    seen.push_back(*found);
    auto value = ParseLimit(**found, item.substr(equals + 1));
    if (!value) return Fail(std::move(value).error().Wrap((*found)->name));
    limits->*(*found)->value = *value;
    begin = end + 1;
  }
  return {};
}

Status ParseOne(const std::string& key, const std::string& text, Limits* limits) {
  if (key == "gpu") {
    if (text != "all" && !ParseNumber(text)) {
      return Fail(
          Bad(key, Error(Code::kInvalidArgument, Quote(text) + ": a whole number, or all")));
    }
    return Fail(Code::kUnimplemented,
                "resourceLimits.gpu " + Quote(text) + ": GPUs are not offered; leave the key out");
  }
  const std::vector<const LimitField*> fields = FieldsOf(key);
  if (fields.empty()) {
    std::string known;
    for (const LimitField& field : kLimitFields) {
      if (FieldsOf(field.key).front() == &field) known.append(field.key).append(", ");
    }
    return Fail(Code::kInvalidArgument, "resourceLimits: unknown key " + Quote(key) +
                                            "; the known ones are " + known + "gpu, and " +
                                            kEphemeralStorage + " for " + kDisk);
  }
  if (fields.size() > 1) {
    const Status parsed = ParseList(fields, text, limits);
    return parsed ? parsed : Fail(Bad(key, parsed.error()));
  }
  const auto value = ParseLimit(*fields.front(), text);
  if (!value) return Fail(Bad(key, value.error()));
  limits->*fields.front()->value = *value;
  return {};
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = ParseNumber(text.substr(0, digits));
  const std::string suffix = Lower(text.substr(digits));
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                  [&](const Unit& u) { return u.suffix == suffix; });
  uint64_t bytes = 0;
  if (!number || unit == std::end(kUnits) ||
      __builtin_mul_overflow(*number, unit->factor, &bytes)) {
    return Fail(Code::kInvalidArgument,
                Quote(text) +
                    ": not a whole number with an optional unit (k, m, g, t, Ki, Mi, "
                    "Gi, Ti)");
  }
  return bytes;
}

std::string BytesText(uint64_t bytes) {
  static constexpr const char* kBinary[] = {"", "Ki", "Mi", "Gi", "Ti"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kBinary)) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kBinary[unit];
}

Result<uint64_t> ParseLimit(const LimitField& field, std::string_view text) {
  const std::optional<uint64_t> value = ParseValue(field.kind, text);
  if (!value || *value < field.smallest || *value > field.largest) {
    return Fail(Code::kInvalidArgument, Quote(text) + ": " + Allowed(field));
  }
  return *value;
}

std::string LimitText(const LimitField& field, uint64_t value) {
  if (field.kind == LimitKind::kBytes) return BytesText(value);
  return std::to_string(value) + (field.kind == LimitKind::kCpu ? "m" : "");
}

Result<Limits> ParseLimits(const std::map<std::string, std::string>& requested,
                           const Limits& defaults, const Enforceable& host) {
  const auto enforceable = [&](std::string_view key) {
    return std::find(host.keys.begin(), host.keys.end(), key) != host.keys.end();
  };
  Limits limits;
  for (const LimitField& field : kLimitFields) {
    if (enforceable(field.key)) limits.*field.value = defaults.*field.value;
  }
  if (requested.contains(kDisk) && requested.contains(kEphemeralStorage)) {
    return Fail(Code::kInvalidArgument, std::string("resourceLimits: ") + kEphemeralStorage +
                                            " is another word for " + kDisk + "; send one of them");
  }
  for (const auto& [key, value] : requested) {
    ATOLL_TRY(ParseOne(key, value, &limits));
    const LimitField& first = *FieldsOf(key).front();
    if (enforceable(first.key)) continue;
    if (first.keeper == LimitKeeper::kQuota && host.drops_disk) {
      limits.*first.value = 0;
      continue;
    }
    if (first.keeper == LimitKeeper::kQuota) {
      return Fail(Code::kUnimplemented,
                  "resourceLimits." + key + " " + Quote(value) +
                      ": this host's store has no project quotas to enforce it with; leave the "
                      "key out (" +
                      quota::Remedy() +
                      "; storage.ignore_disk_limits lets such requests pass without a limit)");
    }
    // A host without swap limits can still grant "no swap".
    if (key != "swap" || limits.swap_bytes != 0) {
      return Fail(Code::kInvalidArgument,
                  "resourceLimits." + key + " " + Quote(value) +
                      ": this host cannot enforce it ('atoll doctor' says why); leave the key out");
    }
  }
  return limits;
}

}  // namespace atl::cgroup
