#include "cgroup/limits.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace atl::cgroup {
namespace {

constexpr std::string_view kKnown = "cpu, memory, swap, pids, io, disk, gpu";

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Decimal digits and nothing else: no sign, no space, no overflow.
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

// A stranger's text in an error message: short.
std::string Quote(std::string_view text) {
  constexpr size_t kShown = 64;
  std::string quoted = "'";
  quoted.append(text.substr(0, kShown));
  if (text.size() > kShown) quoted.append("…");
  quoted.push_back('\'');
  return quoted;
}

Error Bad(std::string_view key, std::string_view value, std::string_view allowed) {
  std::string message = "resourceLimits.";
  message.append(key).append(" ").append(Quote(value)).append(": ").append(allowed);
  return Error(Code::kInvalidArgument, std::move(message));
}

Result<uint64_t> Bytes(std::string_view key, std::string_view value, uint64_t min,
                       std::string_view allowed) {
  const auto bytes = ParseBytes(value);
  if (!bytes || *bytes < min || *bytes > kMaxMemoryBytes) return Fail(Bad(key, value, allowed));
  return *bytes;
}

Status ParseIo(std::string_view value, wire::Limits* limits) {
  constexpr std::string_view kAllowed =
      "a comma-separated list of rbps=, wbps= (bytes a second, at least 64Ki), riops=, wiops= "
      "(operations a second, at least 1), each at most once";
  bool seen[4] = {};
  std::string_view rest = value;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) return Fail(Bad("io", value, kAllowed));
    const std::string_view name = item.substr(0, equals);
    const std::string_view amount = item.substr(equals + 1);
    constexpr std::string_view kNames[] = {"rbps", "wbps", "riops", "wiops"};
    const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames)) return Fail(Bad("io", value, kAllowed));
    const auto index = static_cast<size_t>(found - std::begin(kNames));
    if (std::exchange(seen[index], true)) return Fail(Bad("io", value, kAllowed));
    if (index < 2) {
      ATOLL_ASSIGN(const uint64_t bps, Bytes("io", amount, kMinIoBps, kAllowed));
      (index == 0 ? limits->io_read_bps : limits->io_write_bps) = bps;
    } else {
      const auto iops = ParseNumber(amount);
      if (!iops || *iops == 0 || *iops > std::numeric_limits<uint32_t>::max()) {
        return Fail(Bad("io", value, kAllowed));
      }
      (index == 2 ? limits->io_read_iops : limits->io_write_iops) = static_cast<uint32_t>(*iops);
    }
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Status ParseOne(const std::string& key, const std::string& value, wire::Limits* limits) {
  if (key == "cpu") {
    const auto millis = ParseCpuMillis(value);
    if (!millis) return Fail(Bad(key, value, millis.error().message()));
    limits->cpu_millis = *millis;
    return {};
  }
  if (key == "memory") {
    ATOLL_ASSIGN(
        limits->memory_bytes,
        Bytes(key, value, kMinMemoryBytes,
              "a whole number with an optional unit (k, m, g, t, Ki, Mi, Gi, Ti), from 6Mi "
              "to 64Ti"));
    return {};
  }
  if (key == "swap") {
    ATOLL_ASSIGN(limits->swap_bytes,
                 Bytes(key, value, 0,
                       "a whole number with an optional unit (k, m, g, t, Ki, Mi, Gi, Ti), from 0 "
                       "to 64Ti"));
    return {};
  }
  if (key == "pids") {
    const auto pids = ParseNumber(value);
    if (!pids || *pids < kMinPids || *pids > kMaxPids) {
      return Fail(Bad(key, value, "a whole number from 8 to 4194304"));
    }
    limits->pids = static_cast<uint32_t>(*pids);
    return {};
  }
  if (key == "io") return ParseIo(value, limits);
  if (key == "gpu") {
    return Fail(Code::kUnimplemented,
                "resourceLimits.gpu " + Quote(value) + ": GPUs are not offered; leave the key out");
  }
  if (key == "disk") {
    ATOLL_ASSIGN(
        limits->disk_bytes,
        Bytes(key, value, kMinDiskBytes,
              "a whole number with an optional unit (k, m, g, t, Ki, Mi, Gi, Ti), from 1Mi "
              "to 64Ti"));
    return {};
  }
  return Fail(Code::kInvalidArgument, "resourceLimits: unknown key " + Quote(key) +
                                          "; the known ones are " + std::string(kKnown));
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

Result<uint32_t> ParseCpuMillis(std::string_view text) {
  constexpr std::string_view kAllowed =
      "a number of cores such as 1 or 0.5, or thousandths such as 500m, from 0.01 to 1024";
  const auto fail = [&] { return Fail(Code::kInvalidArgument, std::string(kAllowed)); };
  std::optional<uint64_t> millis;
  if (!text.empty() && text.back() == 'm') {
    millis = ParseNumber(text.substr(0, text.size() - 1));
  } else {
    // By hand instead of strtod: no locale, no hexadecimal, no infinity, no rounding.
    const size_t dot = text.find('.');
    const std::string_view whole = text.substr(0, dot);
    const std::string_view fraction =
        dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
    if (dot != std::string_view::npos && whole.empty() && fraction.empty()) return fail();
    const auto cores = whole.empty() && !fraction.empty() ? 0 : ParseNumber(whole);
    if (!cores || *cores > kMaxCpuMillis || fraction.size() > 9 ||
        fraction.find_first_not_of("0123456789") != std::string_view::npos) {
      return fail();
    }
    // Thousandths are the unit; what is finer is cut off.
    std::string thousandths(fraction.substr(0, 3));
    thousandths.resize(3, '0');
    millis = *cores * 1000 + *ParseNumber(thousandths);
  }
  if (!millis || *millis < kMinCpuMillis || *millis > kMaxCpuMillis) return fail();
  return static_cast<uint32_t>(*millis);
}

Result<wire::Limits> ParseLimits(const std::map<std::string, std::string>& requested,
                                 const LimitDefaults& defaults,
                                 const std::vector<std::string>& available) {
  const auto enforceable = [&](std::string_view key) {
    return std::find(available.begin(), available.end(), key) != available.end();
  };
  wire::Limits limits;
  if (enforceable("cpu")) limits.cpu_millis = defaults.cpu_millis;
  if (enforceable("memory")) limits.memory_bytes = defaults.memory_bytes;
  if (enforceable("pids")) limits.pids = defaults.pids;
  if (enforceable("disk")) limits.disk_bytes = defaults.disk_bytes;
  for (const auto& [key, value] : requested) {
    ATOLL_TRY(ParseOne(key, value, &limits));
    if (key == "disk" && !enforceable(key)) {
      return Fail(Code::kUnimplemented,
                  "resourceLimits.disk " + Quote(value) +
                      ": this host's store has no project quotas to enforce it with; have the "
                      "operator run 'atolld storage init', or leave the key out");
    }
    // "No swap" needs nothing from a host that has no way to allow any.
    if (!enforceable(key) && !(key == "swap" && limits.swap_bytes == 0)) {
      return Fail(Code::kInvalidArgument,
                  "resourceLimits." + key + " " + Quote(value) +
                      ": this host cannot enforce it ('atoll doctor' says why); leave the key out");
    }
  }
  return limits;
}

}  // namespace atl::cgroup
