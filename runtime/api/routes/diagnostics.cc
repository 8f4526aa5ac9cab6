#include "runtime/api/routes/diagnostics.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cgroup/limits_text.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/secret_name.h"
#include "runtime/api/gate/validation.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_text.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"
#include "runtime/sandbox/output/log_reader.h"

namespace atl::api {
namespace {

constexpr int64_t kDefaultSinceMs = int64_t{10} * 60 * 1000;
constexpr int64_t kMaxSinceMs = int64_t{100} * 365 * 24 * 3600 * 1000;
constexpr int64_t kMaxTail = 10000;
constexpr int64_t kMaxEvents = 500;
constexpr size_t kLabelWidth = 12;

// Returns one line of valid UTF-8 for any `text`.
std::string OneLine(std::string_view text) {
  std::string line;
  sandbox::AppendUtf8(text, &line);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  }
  return line;
}

std::string Labelled(std::string_view label, std::string_view value) {
  std::string line(label);
  line.push_back(':');
  line.resize(std::max(line.size() + 1, kLabelWidth), ' ');
  return line + OneLine(value) + "\n";
}

bool Ended(const sandbox::Sandbox& s) {
  return sandbox::IsOver(s.state);
}

bool IsEnd(const sandbox::HistoryEvent& event) {
  return event.kind == sandbox::StateName(sandbox::State::kTerminated) ||
         event.kind == sandbox::StateName(sandbox::State::kFailed);
}

bool IsOfLimits(const sandbox::HistoryEvent& event) {
  return event.kind == sandbox::kOutOfMemory || event.kind == sandbox::kPidsLimit;
}

// Returns true for events that the host observed and that no client asked for.
bool IsOfRuntime(const sandbox::HistoryEvent& event) {
  return IsEnd(event) || IsOfLimits(event);
}

std::string Describe(const sandbox::HistoryEvent& event) {
  std::string text = event.kind + " " + event.reason;
  if (!event.message.empty()) text += ": " + event.message;
  return text;
}

std::string Masked(const std::string& name, const std::string& value) {
  return IsSecretName(name) ? kHidden : value;
}

std::string Variables(const std::map<std::string, std::string>& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    text += "  " + OneLine(name) + "=" + OneLine(Masked(name, value)) + "\n";
  }
  return text.empty() ? "  (none)\n" : text;
}

// Renders limits in the units of a request.
std::string LimitsText(const cgroup::Limits& limits) {
  std::string text;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    const uint64_t value = limits.*field.value;
    if (value == 0) continue;
    text.append("  ").append(field.name).append("=");
    text.append(cgroup::LimitText(field, value)).append("\n");
  }
  return text.empty() ? "  (no limits)\n" : text;
}

// Renders a volume in the form of a request.
nlohmann::json VolumeJson(const wire::Volume& volume) {
  nlohmann::json out = {{"mountPath", volume.target}, {"readOnly", volume.read_only}};
  if (volume.kind == wire::Volume::Kind::kNamed) {
    out["pvc"] = {{"claimName", wire::VolumeNameOf(volume.source)}};
  } else if (volume.kind == wire::Volume::Kind::kObjects) {
    const size_t slash = volume.source.find('/');
    out["ossfs"] = {{"endpoint", volume.source.substr(0, slash)},
                    {"bucket", volume.source.substr(slash + 1)}};
  } else {
    out["host"] = {{"path", volume.source}};
  }
  if (!volume.sub_path.empty()) out["subPath"] = volume.sub_path;
  return out;
}

std::string Section(std::string_view title, std::string_view text) {
  std::string section(title);
  section.append("\n").append(40, '-').append("\n").append(text);
  if (!text.ends_with('\n')) section.push_back('\n');
  return section;
}

}  // namespace

sandbox::LogQuery AsLogQuery(const DiagnosticsQuery& asked, int64_t tail) {
  sandbox::LogQuery query;
  query.tail = static_cast<size_t>(asked.tail.value_or(tail));
  if (asked.since_ms > 0) query.since_us = (SystemClock().UnixMillis() - asked.since_ms) * 1000;
  return query;
}

int64_t ParseSince(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest + 1 != end || number < 0) return kDefaultSinceMs;
  const int64_t unit = *rest == 's'   ? 1000
                       : *rest == 'm' ? 60'000
                       : *rest == 'h' ? 3'600'000
                       : *rest == 'd' ? 86'400'000
                                      : 0;
  if (unit == 0) return kDefaultSinceMs;
  return std::max<int64_t>(1, number > kMaxSinceMs / unit ? kMaxSinceMs : number * unit);
}

Parsed<DiagnosticsQuery> ParseDiagnosticsQuery(std::string_view query, int64_t limit) {
  DiagnosticsQuery asked;
  asked.limit = limit;
  Problems problems;
  for (const auto& [name, value] : http::ParseQuery(query)) {
    if (name == "scope") {
      asked.scope = value;
      for (char& c : *asked.scope) c = http::ToLower(c);
    }
    if (name == "tail" && value == "all") {
      asked.whole = true;
    } else if (name == "tail") {
      ParseInteger(value, {"query", "tail"}, 1, kMaxTail, &problems, &asked.tail.emplace());
    } else if (name == "limit" || name == "event_limit") {
      ParseInteger(value, {"query", name}, 1, kMaxEvents, &problems, &asked.limit);
    } else if (name == "since") {
      asked.since_ms = ParseSince(value);
    } else if (name == "follow") {
      asked.follow = value == "true" || value == "1";
    }
  }
  if (!problems.empty()) return Refuse(problems.ToResponse());
  return asked;
}

std::vector<sandbox::HistoryEvent> AllEvents(const DiagnosticsSubject& subject) {
  const sandbox::Sandbox& s = subject.sandbox;
  std::vector<sandbox::HistoryEvent> events = {
      {s.created_at_ms, "Created", "CONTAINER_CREATED", "image " + s.spec.image}};
  events.insert(events.end(), subject.history.begin(), subject.history.end());
  if (subject.history.empty()) {
    events.push_back(
        {s.transition_at_ms, std::string(sandbox::StateName(s.state)), s.reason, s.message});
  }
  return events;
}

std::string EventLine(const sandbox::HistoryEvent& event) {
  const bool warning = event.kind == sandbox::StateName(sandbox::State::kFailed) ||
                       IsOfLimits(event) || event.kind == sandbox::kVolumeLost ||
                       event.reason == sandbox::kSandboxLost;
  std::string line = FormatTime(event.time_ms);
  line += IsOfRuntime(event) ? " runtime " : " lifecycle ";
  line += warning ? "Warning " : "Normal ";
  return line + OneLine(Describe(event));
}

std::optional<std::string> EventsText(const DiagnosticsSubject& subject, std::string_view scope) {
  if (scope != "all" && scope != "lifecycle" && scope != "runtime") return std::nullopt;
  std::string text;
  for (const sandbox::HistoryEvent& event : AllEvents(subject)) {
    if (scope == "runtime" && !IsOfRuntime(event)) continue;
    text += EventLine(event) + "\n";
  }
  return text;
}

std::string LegacyEventsText(const DiagnosticsSubject& subject, int64_t limit) {
  const sandbox::Sandbox& s = subject.sandbox;
  std::string text = Labelled("Container", s.id);
  text += Labelled("Status", std::string(sandbox::StateName(s.state)) + " (" + s.reason + ")");
  text += Labelled("Created", FormatTime(s.created_at_ms));
  const auto started = std::find_if(
      subject.history.begin(), subject.history.end(),
      [](const auto& event) { return event.kind == sandbox::StateName(sandbox::State::kRunning); });
  if (started != subject.history.end()) text += Labelled("Started", FormatTime(started->time_ms));
  if (Ended(s)) text += Labelled("Finished", FormatTime(s.transition_at_ms));
  std::vector<std::string> notable;
  for (auto event = subject.history.begin(); event != subject.history.end(); ++event) {
    if (event == started) continue;
    notable.push_back(Labelled("Event", FormatTime(event->time_ms) + " " + Describe(*event)));
  }
  if (notable.empty() && Ended(s)) notable.push_back(Labelled("Event", s.message));
  if (notable.empty()) return text + "(no notable events)\n";
  const size_t skip =
      notable.size() - std::min(notable.size(), static_cast<size_t>(std::max<int64_t>(limit, 1)));
  for (size_t i = skip; i < notable.size(); ++i) text += notable[i];
  return text;
}

std::string InspectText(const DiagnosticsSubject& subject) {
  const sandbox::Sandbox& s = subject.sandbox;
  std::string text = Labelled("Container", s.id);
  text += Labelled("Image", s.spec.image);
  text += Labelled("Digest", s.image_digest);
  if (s.spec.platform)
    text += Labelled("Platform", s.spec.platform->os + "/" + s.spec.platform->arch);
  text += Labelled("Entrypoint", JsonText(s.spec.entrypoint));
  text += Labelled("Status", std::string(sandbox::StateName(s.state)));
  text += Labelled("Reason", s.reason);
  text += Labelled("Message", s.message);
  text += Labelled("Changed", FormatTime(s.transition_at_ms));
  text += Labelled("Created", FormatTime(s.created_at_ms));
  text += Labelled("Expires", s.expires_at_ms ? FormatTime(*s.expires_at_ms) : "never");
  if (s.spec.idle) {
    text += Labelled("Idle", std::string(s.spec.idle->ends ? "ended" : "paused") + " after " +
                                 std::to_string(s.spec.idle->after_seconds) + " s without use");
  }
  if (s.spec.reclaims) text += Labelled("Paused memory", "goes to swap");
  if (s.state == sandbox::State::kPaused && s.reclaimed_bytes != 0) {
    text += Labelled("In swap", std::to_string(s.reclaimed_bytes) + " bytes");
  }
  text += "\nResources:\n" + LimitsText(s.spec.limits);
  text += "\nNetwork:\n";
  for (const std::string& address : subject.addresses) text += "  " + address + "\n";
  if (subject.addresses.empty()) text += "  (none)\n";
  text += "\nPorts:\n  every port, at /sandboxes/" + s.id + "/proxy/PORT/\n";
  text += "\nLabels:\n" + Variables(s.metadata);
  text += "\nEnvironment:\n" + Variables(s.spec.env);
  return text;
}

nlohmann::json InspectJson(const DiagnosticsSubject& subject) {
  const sandbox::Sandbox& s = subject.sandbox;
  nlohmann::json limits = nlohmann::json::object();
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    const uint64_t value = s.spec.limits.*field.value;
    if (value != 0) limits[field.name] = cgroup::LimitText(field, value);
  }
  nlohmann::json env = nlohmann::json::object();
  for (const auto& [name, value] : s.spec.env) env[name] = Masked(name, value);
  nlohmann::json volumes = nlohmann::json::array();
  for (const wire::Volume& volume : s.spec.volumes) volumes.push_back(VolumeJson(volume));
  nlohmann::json out = {
      {"imageDigest", s.image_digest}, {"resourceLimits", std::move(limits)},
      {"env", std::move(env)},         {"addresses", subject.addresses},
      {"volumes", std::move(volumes)}, {"readOnlyRootFilesystem", s.spec.readonly_root}};
  if (s.spec.idle) {
    out["idle"] = {{"after", s.spec.idle->after_seconds},
                   {"action", s.spec.idle->ends ? "end" : "pause"}};
  }
  out["isolation"] = TierOf(s.spec);
  if (!s.devices.empty()) out["gpus"] = s.devices;
  out["pauseMemory"] = s.spec.reclaims ? "reclaim" : "keep";
  return out;
}

std::string SummaryText(const DiagnosticsSubject& subject, int64_t limit, std::string_view logs) {
  const std::string banner(72, '=');
  std::string text = banner + "\nSANDBOX DIAGNOSTICS: " + subject.sandbox.id + "\n" + banner + "\n";
  text += "\n" + Section("INSPECT", InspectText(subject));
  text += "\n" + Section("EVENTS", LegacyEventsText(subject, limit));
  text += "\n" + Section("LOGS", logs);
  return text;
}

}  // namespace atl::api
