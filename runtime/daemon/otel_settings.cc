#include "runtime/daemon/otel_settings.h"

#include <fcntl.h>
#include <sys/utsname.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"
#include "runtime/base/sys.h"
#include "runtime/http/ascii.h"
#include "runtime/http/base_url.h"
#include "runtime/http/head.h"
#include "runtime/http/query.h"

namespace atl::daemon {
namespace {

constexpr std::string_view kMetricsPath = "/v1/metrics";

struct Variable {
  std::string_view name;
  std::string_view value;
};

// Returns the first of `names` that is set and not empty; otherwise a variable without a name.
Variable FirstOf(const std::vector<std::string>& environment,
                 std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const std::string_view entry : environment) {
      if (entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=') {
        return {name, entry.substr(name.size() + 1)};
      }
    }
  }
  return {};
}

Result<std::string> MetricsUrl(const Config& config, const std::vector<std::string>& environment) {
  std::string url = config.otel_endpoint;
  std::string_view from = "otel.endpoint";
  if (url.empty()) {
    const Variable named = FirstOf(
        environment, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"});
    if (named.name.empty()) return "http://localhost:4318" + std::string(kMetricsPath);
    url = named.value;
    from = named.name;
  }
  auto parsed = http::ParseBaseUrl(url);
  if (!parsed) return Fail(std::move(parsed).error().Wrap(from));
  while (url.ends_with('/')) url.pop_back();
  if (parsed->prefix.empty() || from == "OTEL_EXPORTER_OTLP_ENDPOINT") url.append(kMetricsPath);
  return url;
}

// Parses "name=value,name=value", both with %XX.
Result<std::vector<std::pair<std::string, std::string>>> ParsePairs(const Variable& variable) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const Error bad(Code::kInvalidArgument, std::string(variable.name) +
                                              ": use NAME=VALUE, separated by ',', with %XX for "
                                              "characters that a name or value cannot have");
  std::string_view rest = variable.value;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (http::TrimBlanks(entry).empty()) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) return Fail(bad);
    auto& [name, value] = pairs.emplace_back();
    if (!http::PercentDecode(http::TrimBlanks(entry.substr(0, equals)), &name) ||
        !http::PercentDecode(http::TrimBlanks(entry.substr(equals + 1)), &value) || name.empty()) {
      return Fail(bad);
    }
  }
  return pairs;
}

bool IsSet(const std::vector<std::string>& environment, std::string_view name,
           std::string_view value) {
  return http::EqualNoCase(http::TrimBlanks(FirstOf(environment, {name}).value), value);
}

// Returns the id of the daemon of this data directory on this host, as a UUID of the kind that is
// made of a hash (RFC 9562, version 8). The number of the host itself is a secret (machine-id(5)).
std::string InstanceId(const Config& config) {
  utsname host{};
  const bool named = ::uname(&host) == 0;
  const std::string machine =
      sys::ReadFileAt(AT_FDCWD, "/etc/machine-id", 64).value_or(named ? host.nodename : "");
  std::string bytes = Sha256("atoll service.instance.id\n" + machine + "\n" + config.data_dir);
  bytes.resize(16);
  bytes[6] = static_cast<char>((bytes[6] & 0x0f) | 0x80);
  bytes[8] = static_cast<char>((bytes[8] & 0x3f) | 0x80);
  std::string id = HexEncode(bytes);
  for (const size_t at : {20, 16, 12, 8}) id.insert(at, "-");
  return id;
}

}  // namespace

Result<std::optional<OtelSettings>> FindOtelSettings(const Config& config,
                                                     const std::vector<std::string>& environment) {
  if (!config.otel_enabled || IsSet(environment, "OTEL_SDK_DISABLED", "true") ||
      IsSet(environment, "OTEL_METRICS_EXPORTER", "none")) {
    return std::optional<OtelSettings>();
  }
  OtelSettings settings;
  settings.interval_us = int64_t{config.otel_interval_ms} * 1000;
  ATOLL_ASSIGN(settings.url, MetricsUrl(config, environment));
  const Variable headers =
      FirstOf(environment, {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"});
  ATOLL_ASSIGN(const auto fields, ParsePairs(headers));
  for (const auto& [name, value] : fields) {
    if (!http::ValidField(name, value)) {
      return Fail(Code::kInvalidArgument,
                  std::string(headers.name) + ": the header '" + name + "' cannot be sent");
    }
    settings.headers.Set(name, value);
  }
  ATOLL_ASSIGN(settings.resource, ParsePairs(FirstOf(environment, {"OTEL_RESOURCE_ATTRIBUTES"})));
  const auto set = [&resource = settings.resource](const char* name, std::string value) {
    std::erase_if(resource, [name](const auto& attribute) { return attribute.first == name; });
    resource.emplace_back(name, std::move(value));
  };
  const auto add = [&resource = settings.resource](const char* name, std::string value) {
    const bool named = std::any_of(resource.begin(), resource.end(), [name](const auto& attribute) {
      return attribute.first == name;
    });
    if (!named) resource.emplace_back(name, std::move(value));
  };
  utsname host{};
  if (::uname(&host) == 0) add("host.name", host.nodename);
  add("service.version", ATOLL_VERSION);
  set("service.name", config.otel_service_name);
  // Survives restarts, so that a restart makes no new time series. The start time of each counter
  // says that a new process counts anew.
  add("service.instance.id", InstanceId(config));
  return std::optional(std::move(settings));
}

}  // namespace atl::daemon
