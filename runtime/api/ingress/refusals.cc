#include "runtime/api/ingress/refusals.h"

#include <utility>

#include "runtime/api/gate/credential.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

namespace atl::api {
namespace {

constexpr const char* kRefusalNames[] = {"missing_key",   "wrong_key",   "web_page",
                                         "sandbox_token", "expired_key", "revoked_key",
                                         "tenant_gone",   "provider"};
constexpr size_t kMostOfPath = 200;

}  // namespace

void Refusals::Add(Reason reason, const http::Request& request, std::string_view request_id,
                   std::string_view sandbox) {
  ++counts_[static_cast<size_t>(reason)];
  if (auditor_) {
    auditor_->Refused("login.failed", request, request_id,
                      kRefusalNames[static_cast<size_t>(reason)], nullptr, sandbox);
  }
  const int64_t second = SystemClock().BootMicros() / 1'000'000;
  if (std::exchange(second_, second) != second) lines_ = 0;
  if (++lines_ > kLinesPerSecond) {
    ++unlogged_;
    return;
  }
  LogLine line(LogLevel::kWarning, "access refused");
  line.Add("reason", kRefusalNames[static_cast<size_t>(reason)])
      .Add("by", KeyId(secret_, KeyOf(request)))
      .Add("from", request.peer);
  if (sandbox.empty()) {
    line.Add("method", request.method)
        .Add("path", WithoutTokens(request.path()).substr(0, kMostOfPath));
  } else {
    // The path is not logged, because it may contain a signature.
    line.Add("sandbox", sandbox);
  }
  if (unlogged_ != 0) line.Add("unlogged", std::exchange(unlogged_, 0));
}

void Refusals::Add(const http::Response& refusal, const Rights& rights,
                   const http::Request& request, std::string_view request_id,
                   const tenants::Identity* holder, std::string_view sandbox) {
  if (refusal.status == 401) Add(Reason::kSandboxToken, request, request_id, sandbox);
  if (refusal.status != 403) return;
  ++denied_[rights.action.empty() ? "read" : rights.action];
  if (auditor_) {
    auditor_->Refused("authz.denied", request, request_id, RouteName(rights), holder, sandbox);
  }
}

void Refusals::AddMetrics(MetricSet* metrics) const {
  MetricFamily& failures = metrics->Counter(
      "atoll_auth_failures_total",
      "Requests that were refused for what they had to show. reason: missing_key, wrong_key, "
      "web_page (there is no key), sandbox_token (of a way into a sandbox), expired_key, "
      "revoked_key, tenant_gone, provider (which could not be asked).",
      {"reason"});
  for (size_t i = 0; i < counts_.size(); ++i) failures.Add(counts_[i], {kRefusalNames[i]});
  MetricFamily& denied = metrics->Counter(
      "atoll_authz_denied_total",
      "Requests of a known caller that its role may not make, by the action of the audit log. "
      "\"read\" stands for all that is not audited.",
      {"action"});
  for (const auto& [action, count] : denied_) denied.Add(count, {std::string(action)});
}

}  // namespace atl::api
