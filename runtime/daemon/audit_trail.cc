#include "runtime/daemon/audit_trail.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/api/gate/command_facts.h"
#include "runtime/tenants/audit/level.h"

namespace atl::daemon {
namespace {

constexpr uint64_t kDaySeconds = 24 * 3600;
// A receiver that restarts is no trouble.
constexpr int64_t kPatienceUs = 10'000'000;

// Returns the action of an event of a sandbox; empty: requests cause such events, and their own
// lines tell of them.
std::string_view ActionOf(const sandbox::HistoryEvent& event) {
  if (event.kind == sandbox::kOutOfMemory) return "sandbox.oom";
  if (event.reason == sandbox::kSandboxLost) return "sandbox.lost";
  if (event.kind == sandbox::kDeletedEvent)
    return event.reason == "EXPIRED" ? "sandbox.expire" : "";
  if (event.kind == sandbox::StateName(sandbox::State::kTerminated) ||
      event.kind == sandbox::StateName(sandbox::State::kFailed)) {
    return "sandbox.end";
  }
  if (event.kind == sandbox::StateName(sandbox::State::kPaused) &&
      event.reason == sandbox::kIdlePaused) {
    return "sandbox.pause";
  }
  return {};
}

// Returns the microseconds for which the sink has taken no line; 0: it takes them.
int64_t FailingFor(const sinks::Shipper& sink) {
  const int64_t since_us = sink.failing_since_us();
  return since_us == 0 ? 0 : MonotonicMicros() - since_us;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : " ").append(name);
  return text;
}

}  // namespace

Result<std::unique_ptr<AuditTrail>> AuditTrail::Open(const Config& config, Loop& loop,
                                                     const Clock& clock, Health& health,
                                                     const std::string& secret) {
  audit::LogSettings settings{.directory = config.audit_directory,
                              .refuses = config.audit_refuses,
                              .keep_seconds = config.audit_keep_days * kDaySeconds,
                              .keep_bytes = config.audit_keep_bytes,
                              .tenant_bytes = config.audit_tenant_bytes};
  ATOLL_ASSIGN(auto log, audit::AuditLog::Open(loop, clock, health, std::move(settings)));
  ATOLL_ASSIGN(audit::Levels levels, audit::Levels::Parse(config.audit_levels));
  auto auditor = std::make_shared<api::Auditor>(*log, clock, std::move(levels), secret);
  return std::unique_ptr<AuditTrail>(new AuditTrail(std::move(log), std::move(auditor)));
}

void AuditTrail::Watch(const sandbox::Registry& registry, sandbox::History& history) {
  auditor_->SetDescribe([&registry](const std::string& id, audit::Event* event) {
    // Also one that is leaving or gone: its history is its owner's.
    const sandbox::Sandbox* const sandbox = registry.Look(id);
    if (sandbox != nullptr && sandbox->stocked) return;
    const auto owner = sandbox != nullptr ? sandbox->tenant : registry.OwnerOfGone(id);
    if (!owner) return;
    // The attempt of one tenant on another's sandbox stays a line of who tries, as an attempt on an
    // unknown id does: its own log would otherwise tell which ids there are.
    if (!event->tenant.empty() && event->tenant != *owner) return;
    event->tenant = *owner;
    if (sandbox != nullptr) event->target.image = api::WithoutSecrets(sandbox->spec.image);
  });
  history.OnEvent(
      [this](const std::string& id, const sandbox::HistoryEvent& event) { OnEvent(id, event); });
}

// The message of an event is left out, because it may quote output of the sandbox.
void AuditTrail::OnEvent(const std::string& id, const sandbox::HistoryEvent& event) {
  const std::string_view action = ActionOf(event);
  if (!action.empty()) auditor_->WriteOwn(action, id, {{"reason", event.reason}});
}

void AuditTrail::Started() {
  auditor_->WriteOwn("daemon.start", {}, {{"version", std::string(ATOLL_VERSION)}});
}

Status AuditTrail::StartSinks(const std::vector<std::string>& lines, Loop& loop) {
  for (const std::string& line : lines) {
    ATOLL_ASSIGN(sinks::SinkSettings settings, sinks::ParseSink(line));
    ATOLL_ASSIGN(auto sink, sinks::MakeSink(settings));
    // Called on the shipper's thread.
    const auto lost =
        [&loop, record = std::make_shared<std::function<void(uint64_t)>>(
                    guard_([this, name = settings.name](uint64_t count) {
                      auditor_->WriteOwn("audit.gap", {},
                                         {{"sink", name}, {"count", static_cast<int64_t>(count)}});
                    }))](uint64_t count) { loop.Post([record, count] { (*record)(count); }); };
    ATOLL_ASSIGN(auto shipper,
                 sinks::Shipper::Start(log_->directory(), settings.name, std::move(sink), lost));
    sinks_.push_back(std::move(shipper));
  }
  if (sinks_.empty()) return {};
  log_->SetNeeded([this] {
    uint64_t needed = UINT64_MAX;
    for (const auto& sink : sinks_) needed = std::min(needed, sink->needed());
    return needed;
  });
  return {};
}

void AuditTrail::AddMetrics(MetricSet* metrics) const {
  log_->AddMetrics(metrics);
  MetricFamily& lost = metrics->Counter(
      "atoll_audit_lost_total", "Lines that were deleted before a sink had them.", {"sink"});
  for (const auto& sink : sinks_) lost.Add(sink->lost(), {sink->name()});
  MetricFamily& behind = metrics->Gauge("atoll_audit_sink_unsent_lines",
                                        "Lines that a sink has not had yet.", {"sink"});
  const uint64_t head = log_->head().seq;
  for (const auto& sink : sinks_) {
    behind.Add(head - std::min(head, sink->sent()), {sink->name()});
  }
  MetricFamily& failing = metrics->Gauge("atoll_audit_sink_oldest_unsent_seconds",
                                         "For how long a sink has taken no line.", {"sink"});
  for (const auto& sink : sinks_) {
    failing.Add(static_cast<double>(FailingFor(*sink)) / 1e6, {sink->name()});
  }
}

std::string AuditTrail::Trouble() const {
  std::vector<std::string> names;
  for (const auto& sink : sinks_) {
    if (FailingFor(*sink) >= kPatienceUs) names.push_back(sink->name());
  }
  if (names.empty()) return {};
  return "these sinks of the audit log take no lines: " + Joined(names) +
         "; the daemon's log says why. Lines wait in the log's files";
}

void AuditTrail::Stopped() {
  auditor_->WriteOwn("daemon.stop", {}, {});
  log_->Sync();
}

void AuditTrail::Denied(const std::string& sandbox, const netpolicy::Denial& denial) {
  std::string destination = denial.hostname.empty() ? denial.address : denial.hostname;
  if (denial.port != 0) destination.append(":").append(std::to_string(denial.port));
  auditor_->Denied(sandbox, destination, denial.reason, denial.count);
}

void AuditTrail::Reloaded(const Reload& reload) {
  if (auto levels = audit::Levels::Parse(reload.config.audit_levels)) {
    auditor_->SetLevels(std::move(*levels));
  }
  std::vector<audit::Fact> what;
  if (!reload.changed.empty()) what.push_back({"changed", Joined(reload.changed)});
  if (!reload.deferred.empty()) what.push_back({"needs_restart", Joined(reload.deferred)});
  auditor_->WriteOwn("config.reload", {}, std::move(what));
}

void AuditTrail::ReloadFailed() {
  auditor_->Write({.action = "config.reload", .outcome = "failed"});
}

}  // namespace atl::daemon
