#include "runtime/api/gate/audit_entry.h"

#include <algorithm>
#include <utility>

#include "runtime/api/gate/command_facts.h"

namespace atl::api {
namespace {

// The log is tried again each second.
constexpr int kRetrySeconds = 5;

}  // namespace

AuditEntry::AuditEntry(const std::shared_ptr<Auditor>& auditor, const http::Request& request,
                       std::string request_id, std::string_view action,
                       const tenants::Caller& caller)
    : auditor_(auditor),
      level_(auditor->LevelOf(action)),
      began_us_(auditor->clock().BootMicros()),
      caller_tenant_(caller.tenant) {
  if (level_ == audit::Level::kNone) written_ = true;
  if (written_) return;
  event_ = {.action = action,
            .tenant = caller.tenant,
            .actor = ActorOf(caller),
            .from = SourceOf(request),
            .request = std::move(request_id),
            .trace = TraceOf(request)};
}

AuditEntry::~AuditEntry() {
  Answered(0);
}

void AuditEntry::SetTarget(std::string_view kind, const std::string& id) {
  if (written_) return;
  event_.target = {.kind = std::string(kind), .id = WithoutSecrets(id)};
  const auto auditor = auditor_.lock();
  if (kind == "sandbox" && auditor) auditor->DescribeSandbox(id, &event_);
}

void AuditEntry::AddFact(std::string_view name, std::string value) {
  if (!written_) event_.what.push_back({name, std::move(value)});
}

void AuditEntry::AddFact(std::string_view name, int64_t value) {
  if (!written_) event_.what.push_back({name, value});
}

bool AuditEntry::TakesBody() const {
  return !written_ && level_ >= audit::Level::kArgv && event_.action.starts_with("exec.");
}

void AuditEntry::TakeBody(std::string_view piece) {
  if (written_) return;
  const size_t room = kMaxAuditedBody - body_.size();
  body_cut_ = body_cut_ || piece.size() > room;
  body_.append(piece.substr(0, std::min(room, piece.size())));
}

void AuditEntry::Answered(int status, std::string_view code, std::string_view made) {
  const auto auditor = auditor_.lock();
  if (std::exchange(written_, true) || !auditor) return;
  event_.status = status;
  event_.outcome = status == 0 ? "unanswered" : audit::OutcomeOf(status);
  event_.took_us = auditor->clock().BootMicros() - began_us_;
  if (!made.empty() && event_.target.id.empty()) {
    event_.target.id = made;
    event_.target.kind = event_.action.substr(0, event_.action.find('.'));
    if (event_.target.kind == "sandbox") auditor->DescribeSandbox(event_.target.id, &event_);
  } else if (!made.empty()) {
    event_.what.push_back({"made", std::string(made)});
  }
  if (only_for_others_ && event_.tenant == caller_tenant_) return;
  if (!code.empty()) event_.what.push_back({"code", std::string(code)});
  auto facts = CommandFacts(body_, !body_cut_, level_,
                            [&auditor](std::string_view text) { return auditor->Hmac(text); });
  std::move(facts.begin(), facts.end(), std::back_inserter(event_.what));
  auditor->Write(std::move(event_));
}

ApiError AuditUnavailable() {
  return {503, "AUDIT_UNAVAILABLE",
          "the audit log cannot be written, so nothing may be changed; deleting and pausing "
          "sandboxes still works",
          kRetrySeconds};
}

bool NeedsAudit(std::string_view method, std::string_view action) {
  if (action.empty() || method == "DELETE" || action == "sandbox.pause") return false;
  if (method != "GET" && method != "HEAD") return true;
  // The WebSocket of a terminal begins with a GET.
  return action.starts_with("exec.");
}

}  // namespace atl::api
