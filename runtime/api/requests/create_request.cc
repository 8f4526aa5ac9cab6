#include "runtime/api/requests/create_request.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "netpolicy/policy/policy_json.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/requests/hooks_request.h"
#include "runtime/api/requests/labels.h"
#include "runtime/api/requests/shell_words.h"
#include "runtime/api/requests/volume_request.h"
#include "runtime/base/json_text.h"
#include "runtime/sandbox/create/isolation.h"

namespace atl::api {
namespace {

constexpr int64_t kMinTimeoutSeconds = 60;
// A key of `extensions` that upstream does not have: "none" makes a sandbox without an entrypoint.
constexpr char kEntrypoint[] = "entrypoint";
// Makes the sandbox's root file system read-only.
constexpr char kReadonlyRoot[] = "readOnlyRootFilesystem";

bool Blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

// Members that are only checked for presence.
struct Extras {
  std::string snapshot;
  std::optional<std::string> network_policy;  // JSON text
  std::vector<VolumeRequest> volumes;
  std::map<std::string, std::string> extensions;
};

void ReadImage(const Field& body, sandbox::Wanted* wanted) {
  const Field image = body.At("image");
  if (!image.IsObject()) return;
  const Field uri = image.At("uri");
  if (!uri.present()) uri.Missing();
  uri.String(&wanted->spec.image);
  // Credentials for a registry. Images are local, so they are not used, but their form is still
  // checked.
  const Field auth = image.At("auth");
  if (auth.IsObject()) {
    const auto read = [&auth](const char* name, std::string* out) {
      const Field part = auth.At(name);
      if (!part.present()) part.Missing();
      part.String(out);
    };
    read("username", &wanted->registry_as.username);
    read("password", &wanted->registry_as.password);
  }
}

void ReadPlatform(const Field& body, sandbox::Wanted* wanted) {
  const Field platform = body.At("platform");
  if (!platform.IsObject()) return;
  sandbox::Platform asked;
  const auto read = [&](const char* name, std::string* out) {
    const Field part = platform.At(name);
    if (!part.present()) part.Missing();
    part.String(out);
    for (char& c : *out) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    out->erase(0, std::min(out->find_first_not_of(" \t"), out->size()));
    out->erase(out->find_last_not_of(" \t") + 1);
  };
  read("os", &asked.os);
  read("arch", &asked.arch);
  wanted->spec.platform = std::move(asked);
}

void ReadTimeout(const Field& body, sandbox::Wanted* wanted) {
  const Field timeout = body.At("timeout");
  int64_t seconds = 0;
  if (!timeout.Integer(&seconds)) return;
  if (seconds < kMinTimeoutSeconds) {
    timeout.Complain(
        "greater_than_equal",
        "Input should be greater than or equal to " + std::to_string(kMinTimeoutSeconds),
        JsonText({{"ge", kMinTimeoutSeconds}}));
    return;
  }
  wanted->timeout_seconds = seconds;
}

void ReadEnv(const Field& env, sandbox::Wanted* wanted) {
  // Upstream's execd reads its hooks from this variable; here they come with the claim. A client
  // that sets the variable must not believe that its hooks run.
  env.StringMap(true, &wanted->spec.env);
  if (wanted->spec.env.contains(kLifecycleVariable)) {
    env.BreaksRule(std::string(kLifecycleVariable) + " is reserved for the server.");
  }
}

// Members that the template defines. A create from a template must not set them.
constexpr const char* kOfTheTemplate[] = {
    "image",   "snapshotId", "entrypoint",      "env",      "resourceLimits", "resourceRequests",
    "volumes", "platform",   "credentialProxy", "lifecycle"};
// Extensions that take effect when a sandbox is built; a template's sandbox is already built.
constexpr const char* kOfTheBuild[] = {sandbox::kPoolRef,   kEntrypoint, kReadonlyRoot,
                                       sandbox::kIsolation, "network",   "network.hostname",
                                       "network.bandwidth"};

void CheckTemplate(const Field& body, const sandbox::Wanted& wanted, const Extras& extras) {
  for (const char* name : kOfTheTemplate) {
    if (body.At(name).present()) {
      return body.BreaksRule(std::string(name) + " cannot be set together with templateId.");
    }
  }
  for (const char* name : kOfTheBuild) {
    if (extras.extensions.contains(name)) {
      return body.BreaksRule(std::string("extensions.") + name +
                             " cannot be set together with templateId.");
    }
  }
  // SDKs send `secureAccess: false` with every create, so false is allowed.
  if (wanted.secure_access) {
    body.BreaksRule("secureAccess cannot be set together with templateId.");
  }
  if (!wanted.timeout_seconds) body.BreaksRule("timeout is required with templateId.");
}

Extras ReadExtras(const Field& body) {
  Extras extras;
  body.At("snapshotId").String(&extras.snapshot);
  if (Blank(extras.snapshot)) extras.snapshot.clear();
  const Field policy = body.At("networkPolicy");
  if (policy.IsObject()) extras.network_policy = JsonText(policy.value());
  extras.volumes = ReadVolumes(body.At("volumes"));
  body.At("extensions").StringMap(false, &extras.extensions);
  return extras;
}

// Rules about the body as a whole. Upstream answers 422 for them too.
void CheckModel(const Field& body, const sandbox::Wanted& wanted, const Extras& extras) {
  const bool pool = extras.extensions.contains(sandbox::kPoolRef);
  const bool image = !Blank(wanted.spec.image);
  if (!wanted.spec.template_id.empty()) return CheckTemplate(body, wanted, extras);
  if (pool && body.At("lifecycle").present()) {
    return body.BreaksRule("lifecycle cannot be set together with extensions.poolRef.");
  }
  if (pool && !extras.snapshot.empty()) {
    return body.BreaksRule("snapshotId cannot be set together with extensions.poolRef.");
  }
  if (!pool && image != extras.snapshot.empty()) {
    return body.BreaksRule("Exactly one of image or snapshotId must be provided.");
  }
  if (extras.extensions.contains(kEntrypoint) && body.At("entrypoint").present()) {
    return body.BreaksRule("extensions.entrypoint cannot be set together with entrypoint.");
  }
  if (image && !pool && !body.At("entrypoint").present() &&
      !extras.extensions.contains(kEntrypoint)) {
    return body.BreaksRule("entrypoint is required when image is provided.");
  }
  if (!pool && !body.At("resourceLimits").present()) {
    return body.BreaksRule("resourceLimits is required unless extensions.poolRef is set.");
  }
  if (wanted.credential_proxy && !extras.network_policy) {
    return body.BreaksRule("credentialProxy requires networkPolicy.");
  }
  if (wanted.credential_proxy && pool) {
    return body.BreaksRule("credentialProxy cannot be set together with extensions.poolRef.");
  }
}

constexpr char kRenewOnAccess[] = "access.renew.extend.seconds";
constexpr int64_t kMinRenewSeconds = 300;
constexpr int64_t kMaxRenewSeconds = 86400;

// Reads an extension that is "true" or "false". Returns "" if it is valid or absent, else what is
// wrong.
std::string ReadSwitch(const std::map<std::string, std::string>& extensions, const char* name,
                       bool* on) {
  const auto found = extensions.find(name);
  if (found == extensions.end()) return {};
  *on = found->second == "true";
  if (*on || found->second == "false") return {};
  return std::string("extensions ") + name + " '" + found->second.substr(0, 40) +
         "': use true or false";
}

constexpr char kIdleAfter[] = "idle.after";
constexpr char kIdleAction[] = "idle.action";

// Reads the idle policy. Returns "" if it is valid or absent, else what is wrong.
std::string ReadIdle(const std::map<std::string, std::string>& extensions, sandbox::Spec* spec) {
  const auto after = extensions.find(kIdleAfter);
  const auto action = extensions.find(kIdleAction);
  if (after == extensions.end()) {
    if (action == extensions.end()) return {};
    return std::string("extensions ") + kIdleAction +
           " says what becomes of an idle sandbox, and " + kIdleAfter +
           " after how many seconds: send both";
  }
  const std::string& text = after->second;
  int64_t seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || rest != text.data() + text.size() || seconds < 0 ||
      seconds > sandbox::kMaxIdleSeconds) {
    return std::string("extensions ") + kIdleAfter + " '" + text.substr(0, 40) +
           "': use a whole number of seconds from 1 to " +
           std::to_string(sandbox::kMaxIdleSeconds) + ", or 0 for never";
  }
  if (action != extensions.end() && action->second != "pause" && action->second != "end") {
    return std::string("extensions ") + kIdleAction + " '" + action->second.substr(0, 40) +
           "': use pause or end";
  }
  spec->idle = {seconds, action != extensions.end() && action->second == "end"};
  return {};
}

constexpr char kPauseMemory[] = "pause.memory";

// Reads what a pause does with memory. Returns "" if it is valid or absent, else what is wrong.
std::string ReadPauseMemory(const std::map<std::string, std::string>& extensions,
                            sandbox::Spec* spec) {
  const auto found = extensions.find(kPauseMemory);
  if (found == extensions.end()) return {};
  if (found->second != "keep" && found->second != "reclaim") {
    return std::string("extensions ") + kPauseMemory + " '" + found->second.substr(0, 40) +
           "': use keep, or reclaim to have it brought to swap while the sandbox is paused";
  }
  spec->reclaims = found->second == "reclaim";
  return {};
}

// Reads all `extensions`. Returns "" if they are valid, else what is wrong.
std::string ReadExtensions(const std::map<std::string, std::string>& extensions,
                           sandbox::Wanted* wanted) {
  size_t bytes = 0;
  for (const auto& [name, value] : extensions) bytes += name.size() + value.size();
  if (bytes > sandbox::kMaxExtensions) {
    return "extensions have " + std::to_string(bytes) + " bytes; at most " +
           std::to_string(sandbox::kMaxExtensions) + " are kept";
  }
  wanted->spec.extensions = extensions;
  if (const auto found = extensions.find(kRenewOnAccess); found != extensions.end()) {
    std::string_view text = found->second;
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    text = text.substr(0, text.find_last_not_of(" \t") + 1);
    int64_t seconds = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (text.empty() || error != std::errc() || rest != text.data() + text.size() ||
        seconds < kMinRenewSeconds || seconds > kMaxRenewSeconds) {
      return std::string("extensions ") + kRenewOnAccess + " '" + found->second.substr(0, 40) +
             "': use a whole number from 300 to 86400";
    }
    wanted->spec.renew_by_seconds = seconds;
  }
  sandbox::Spec& spec = wanted->spec;
  std::string wrong = ReadSwitch(extensions, kReadonlyRoot, &spec.readonly_root);
  if (wrong.empty()) wrong = ReadSwitch(extensions, sandbox::kUniqueName, &spec.unique_name);
  if (wrong.empty()) wrong = ReadIdle(extensions, &spec);
  if (wrong.empty()) wrong = ReadPauseMemory(extensions, &spec);
  if (!wrong.empty()) return wrong;
  if (const auto found = extensions.find(sandbox::kIsolation); found != extensions.end()) {
    auto tier = sandbox::ParseIsolation(found->second);
    if (!tier)
      return std::string("extensions ") + sandbox::kIsolation + " " + tier.error().message();
    wanted->isolation = *std::move(tier);
  }
  if (spec.unique_name && !wanted->metadata.contains(sandbox::kName)) {
    return std::string("extensions ") + sandbox::kUniqueName + ": metadata has no '" +
           sandbox::kName + "' that could be this sandbox's own";
  }
  if (const auto found = extensions.find(kEntrypoint);
      found != extensions.end() && found->second != "none") {
    return std::string("extensions ") + kEntrypoint + " '" + found->second.substr(0, 40) +
           "': only none is known, a sandbox that waits for commands; leave it out and send "
           "entrypoint for a program";
  }
  return {};
}

// Parses bits per second with an optional decimal unit: "8M".
std::optional<uint64_t> ParseBits(std::string_view text) {
  uint64_t bits = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  if (error != std::errc() || bits == 0 || bits > UINT32_MAX) return std::nullopt;
  if (unit.empty()) return bits;
  if (unit == "K" || unit == "k") return bits * 1000;
  if (unit == "M") return bits * 1000 * 1000;
  if (unit == "G") return bits * 1000 * 1000 * 1000;
  return std::nullopt;
}

// Reads what the sandbox may reach: upstream's policy and Atoll's own extensions. Returns "" if
// that is valid, else what is wrong.
std::string ReadNetwork(const Extras& extras, sandbox::Wanted* wanted) {
  if (extras.network_policy) {
    auto policy = netpolicy::ParsePolicy(*extras.network_policy);
    if (!policy) return "networkPolicy: " + policy.error().message();
    wanted->spec.network.policy = netpolicy::Share(*std::move(policy));
  }
  const auto text = [&](const char* name) {
    const auto found = extras.extensions.find(name);
    return found == extras.extensions.end() ? std::string() : found->second;
  };
  wanted->spec.network.network = text("network");
  wanted->spec.network.hostname = text("network.hostname");
  if (const std::string bandwidth = text("network.bandwidth"); !bandwidth.empty()) {
    const auto bits = ParseBits(bandwidth);
    if (!bits) {
      return "extensions network.bandwidth '" + bandwidth.substr(0, 40) +
             "': use bits a second with an optional K, M or G, such as 10M";
    }
    wanted->spec.network.bytes_per_second = *bits / 8;
  }
  return {};
}

// Settings of upstream's egress filter, which runs beside the sandbox. Here the server owns these
// settings, so values from a client have no effect. A misspelt setting is still refused, as in
// upstream.
constexpr std::string_view kEgressVariable = "OPENSANDBOX_EGRESS_";
// Stays in the environment, because programs in the sandbox read it.
constexpr std::string_view kTransparent = "MITMPROXY_TRANSPARENT";
constexpr std::string_view kEgressSettings[] = {kTransparent,
                                                "LOG_LEVEL",
                                                "DNS_UPSTREAM_TIMEOUT",
                                                "MITMPROXY_SSL_INSECURE",
                                                "MITMPROXY_EXTRA_PORTS",
                                                "DENY_WEBHOOK",
                                                "METRICS_EXTRA_ATTRS",
                                                "CREDENTIAL_VAULT_REQUIRE_TLS",
                                                "CREDENTIAL_VAULT_REQUIRE_SCOPED_MATCH",
                                                "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS",
                                                "POLICY_FILE"};

// Removes the settings from the sandbox's environment. Returns "" if they are valid, else what is
// wrong.
std::string TakeEgressSettings(const Extras& extras, std::map<std::string, std::string>* env) {
  std::string wrong;
  std::erase_if(*env, [&](const auto& entry) {
    const std::string_view name = entry.first;
    if (!name.starts_with(kEgressVariable)) return false;
    const std::string_view setting = name.substr(kEgressVariable.size());
    if (extras.network_policy && std::find(std::begin(kEgressSettings), std::end(kEgressSettings),
                                           setting) == std::end(kEgressSettings)) {
      wrong = "env " + std::string(name.substr(0, 80)) +
              ": is no setting of the egress filter that a request may name";
    }
    return !extras.network_policy || setting != kTransparent;
  });
  return wrong;
}

}  // namespace

Parsed<CreateRequest> ParseCreateRequest(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  CreateRequest request;
  sandbox::Wanted& wanted = request.wanted;
  sandbox::Spec& spec = wanted.spec;
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  ReadImage(body, &wanted);
  ReadPlatform(body, &wanted);
  ReadTimeout(body, &wanted);
  body.At("resourceLimits").StringMap(false, &wanted.resource_limits);
  body.At("resourceRequests").StringMap(false, &wanted.resource_requests);
  spec.hooks = ReadHooks(body.At("lifecycle"));
  ReadEnv(body.At("env"), &wanted);
  body.At("metadata").StringMap(false, &wanted.metadata);
  body.At("entrypoint").Strings(1, &request.entrypoint);
  body.At("secureAccess").Bool(&wanted.secure_access);
  const Field proxy = body.At("credentialProxy");
  if (proxy.IsObject()) proxy.At("enabled").Bool(&wanted.credential_proxy);
  body.At("templateId").String(&spec.template_id);
  if (Blank(spec.template_id)) spec.template_id.clear();
  const Extras extras = ReadExtras(body);
  if (problems.empty()) CheckModel(body, wanted, extras);
  if (!problems.empty()) return Refuse(problems.ToResponse());

  if (std::string wrong = ReadExtensions(extras.extensions, &wanted); !wrong.empty()) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER", std::move(wrong));
  }
  if (std::string wrong = ReadNetwork(extras, &wanted); !wrong.empty()) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER", std::move(wrong));
  }
  if (std::string wrong = TakeEgressSettings(extras, &spec.env); !wrong.empty()) {
    return Refuse(400, "SANDBOX::INVALID_PARAMETER", std::move(wrong));
  }
  spec.snapshot_id = extras.snapshot;
  const bool may_say_none =
      !spec.snapshot_id.empty() || extras.extensions.contains(sandbox::kPoolRef);
  if (may_say_none && request.entrypoint.empty() && !extras.extensions.contains(kEntrypoint)) {
    request.entrypoint = {"tail", "-f", "/dev/null"};
  }
  spec.entrypoint = request.entrypoint;
  if (spec.entrypoint.size() == 1 && spec.entrypoint[0].find(' ') != std::string::npos) {
    std::vector<std::string> words;
    if (!SplitShellWords(request.entrypoint[0], &words) || words.empty()) {
      return Refuse(400, "DOCKER::INVALID_ENTRYPOINT",
                    "entrypoint '" + request.entrypoint[0].substr(0, 80) +
                        "': a single string with spaces is split like a shell line, and this one "
                        "has an open quotation or no word; pass a list of arguments");
    }
    spec.entrypoint = std::move(words);
  }
  if (std::string wrong = CheckLabels(wanted.metadata); !wrong.empty()) {
    return Refuse(400, "SANDBOX::INVALID_METADATA_LABEL", std::move(wrong));
  }
  if (const auto wrong = CheckVolumes(extras.volumes, &wanted.mounts)) {
    return Refuse(ErrorResponse(*wrong));
  }
  for (const sandbox::VolumeMount& mount : wanted.mounts) spec.volumes.push_back(mount.volume);
  return request;
}

Parsed<int64_t> ParseRenewRequest(const std::string& text) {
  auto parsed = ParseBody(text);
  if (!parsed) return Refuse(std::move(parsed).error());
  Problems problems;
  const Field body(*parsed, Location{"body"}, &problems);
  const Field expires = body.At("expiresAt");
  int64_t unix_ms = 0;
  if (!body.IsRequiredObject()) return Refuse(problems.ToResponse());
  if (!expires.present()) {
    expires.Missing();
  } else if (expires.value().is_number()) {
    // Accepts epoch seconds as upstream does, and milliseconds if the number is too large for
    // seconds.
    const double number = expires.value().get<double>();
    const double ms = std::abs(number) > 2e10 ? number : number * 1000;
    if (std::abs(ms) > 253402300799000.0) {
      expires.Complain("datetime_parsing", "Input should be a valid datetime, out of range");
    } else {
      unix_ms = static_cast<int64_t>(ms);
    }
  } else if (std::string time; expires.String(&time) && !ParseTime(time, &unix_ms)) {
    expires.Complain("datetime_from_date_parsing",
                     "Input should be a valid datetime, such as 2026-01-31T12:00:00Z");
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return unix_ms;
}

}  // namespace atl::api
