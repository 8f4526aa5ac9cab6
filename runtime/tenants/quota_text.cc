#include "runtime/tenants/quota_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cgroup/limits_text.h"

namespace atl::tenants {
namespace {

using Kind = QuotaField::Kind;

constexpr QuotaField kFields[] = {
    {"sandboxes", Kind::kCount, &Quota::sandboxes},
    {"cpu", Kind::kCpu, &Quota::cpu_millis},
    {"memory", Kind::kBytes, &Quota::memory_bytes},
    {"disk", Kind::kBytes, &Quota::disk_bytes},
    {"gpus", Kind::kCount, &Quota::gpus},
    {"volumes", Kind::kCount, &Quota::volumes},
    {"snapshots", Kind::kCount, &Quota::snapshots},
    {"pools", Kind::kCount, &Quota::pools},
    {"creates_per_second", Kind::kRate, nullptr, &Quota::creates_per_second},
    {"requests_per_second", Kind::kRate, nullptr, &Quota::requests_per_second},
    {"timeout_seconds", Kind::kCount, &Quota::timeout_seconds},
};

constexpr double kMostCpus = 1e6;
constexpr double kMostRate = 1e6;
constexpr uint64_t kMostCount = 1'000'000'000;

// Returns a number from 0 to `most`, or a negative one if the text is none.
double NumberOf(std::string_view text, double most) {
  double number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool sound = error == std::errc() && rest == text.data() + text.size() &&
                     std::isfinite(number) && number >= 0 && number <= most;
  return sound ? number : -1;
}

std::string NumberText(double number) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, number).ptr};
}

Error Wrong(const std::string& text, const char* expected) {
  return {Code::kInvalidArgument, "'" + text.substr(0, 64) + "': use " + expected};
}

}  // namespace

std::span<const QuotaField> QuotaFields() {
  return kFields;
}

Status SetQuota(std::string_view name, const std::string& text, Quota* quota) {
  const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                   [name](const QuotaField& one) { return one.name == name; });
  if (field == std::end(kFields)) {
    std::string known;
    for (const QuotaField& one : kFields) known.append(known.empty() ? "" : ", ").append(one.name);
    return Fail(Code::kInvalidArgument, "'" + std::string(name.substr(0, 64)) +
                                            "' is not a quota; the quotas are " + known);
  }
  switch (field->kind) {
    case Kind::kCount: {
      uint64_t count = 0;
      const char* end = text.data() + text.size();
      const auto [rest, error] = std::from_chars(text.data(), end, count);
      if (text.empty() || error != std::errc() || rest != end || count > kMostCount) {
        return Fail(Wrong(text, "a whole number; 0 is unlimited"));
      }
      quota->*field->value = count;
      return {};
    }
    case Kind::kCpu: {
      const bool millis = text.ends_with('m');
      const double cpus = NumberOf(std::string_view(text).substr(0, text.size() - (millis ? 1 : 0)),
                                   millis ? kMostCpus * 1000 : kMostCpus);
      if (cpus < 0) return Fail(Wrong(text, "CPUs, such as 16, 0.5 or 500m"));
      quota->*field->value = static_cast<uint64_t>(std::llround(millis ? cpus : cpus * 1000));
      return {};
    }
    case Kind::kBytes: {
      const auto bytes = cgroup::ParseBytes(text);
      if (!bytes) return Fail(Wrong(text, "bytes, such as 32Gi"));
      quota->*field->value = *bytes;
      return {};
    }
    case Kind::kRate: {
      const double rate = NumberOf(text, kMostRate);
      if (rate < 0) return Fail(Wrong(text, "a number per second; 0 is unlimited"));
      quota->*field->rate = rate;
      return {};
    }
  }
  return {};
}

std::map<std::string, std::string> QuotaTexts(const Quota& quota) {
  std::map<std::string, std::string> texts;
  for (const QuotaField& field : kFields) {
    const std::string name(field.name);
    if (field.kind == Kind::kRate) {
      if (quota.*field.rate != 0) texts[name] = NumberText(quota.*field.rate);
      continue;
    }
    const uint64_t value = quota.*field.value;
    if (value == 0) continue;
    texts[name] = field.kind == Kind::kBytes ? cgroup::BytesText(value)
                  : field.kind == Kind::kCpu ? NumberText(static_cast<double>(value) / 1000)
                                             : std::to_string(value);
  }
  return texts;
}

}  // namespace atl::tenants
