#include "runtime/daemon/denial_report.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "runtime/api/gate/json.h"
#include "runtime/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/daemon/json_post.h"

namespace atl::daemon {
namespace {

std::string BodyOf(const std::string& sandbox, const std::string& tenant,
                   const netpolicy::Denial& denial) {
  nlohmann::json body{{"timestamp", api::FormatTime(denial.time_ms)},
                      {"source", "opensandbox-egress"},
                      {"sandboxId", sandbox},
                      {"hostname", denial.hostname},
                      {"protocol", denial.protocol},
                      {"reason", denial.reason},
                      {"count", denial.count}};
  if (!tenant.empty()) body["tenant"] = tenant;
  if (!denial.address.empty()) body["address"] = denial.address;
  if (denial.port != 0) body["port"] = denial.port;
  return JsonText(body);
}

// Runs on a pool thread. Returns true if another attempt would be useless.
bool Deliver(const std::string& url, std::string body) {
  const auto status = PostJson(url, {}, std::move(body), DenialReport::kTimeoutUs);
  if (!status) return status.error().code() == Code::kInvalidArgument;
  return *status < 500;
}

}  // namespace

void DenialReport::AddMetrics(MetricSet* metrics) const {
  MetricFamily& denied = metrics->Counter("atoll_egress_denied_total",
                                          "Reported denials, by reason. Repeats of one, and those "
                                          "of a sandbox beyond ten a second, do not count.",
                                          {"reason"});
  for (const auto& [reason, count] : denied_) denied.Add(count, {reason});
  metrics
      ->Counter("atoll_webhook_dropped_total",
                "Denials that were not delivered to network.denial_webhook.")
      .Add(undelivered_);
}

void DenialReport::Report(const std::string& sandbox, const std::string& tenant,
                          const netpolicy::Denial& denial) {
  denied_[denial.reason] += denial.count;
  Log(sandbox, tenant, denial);
  if (webhook_.empty()) return;
  if (!queued_.Take(sandbox)) {
    ++undelivered_;
    if (dropped_++ == 0) {
      LogLine(LogLevel::kWarning, "the webhook for denials is too slow; dropping some denials")
          .Add("url", webhook_);
    }
    return;
  }
  queue_.push_back({sandbox, BodyOf(sandbox, tenant, denial)});
  if (!posting_) Post();
}

void DenialReport::Log(const std::string& sandbox, const std::string& tenant,
                       const netpolicy::Denial& denial) {
  const int64_t second = denial.time_ms / 1000;
  if (std::exchange(second_, second) != second) lines_.Clear();
  if (!lines_.Take(sandbox)) return;
  LogLine line(LogLevel::kInfo, "egress denied");
  line.Add("sandbox", sandbox).Add("reason", denial.reason).Add("protocol", denial.protocol);
  if (!tenant.empty()) line.Add("tenant", tenant);
  if (!denial.hostname.empty()) line.Add("hostname", denial.hostname);
  if (!denial.address.empty()) line.Add("address", denial.address);
  if (denial.port != 0) line.Add("port", static_cast<uint32_t>(denial.port));
}

void DenialReport::Post() {
  posting_ = true;
  auto delivered = std::make_shared<bool>(false);
  loop_.RunBlocking(
      [delivered, url = webhook_, body = queue_.front().body] { *delivered = Deliver(url, body); },
      [this, alive = std::weak_ptr(alive_), delivered] {
        if (!alive.expired()) Posted(*delivered);
      });
}

void DenialReport::Posted(bool delivered) {
  if (!delivered && ++attempts_ < kAttempts) {
    loop_.After((int64_t{1} << (attempts_ - 1)) * 1'000'000, [this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) Post();
    });
    return;
  }
  if (!delivered) {
    ++undelivered_;
    LogLine(LogLevel::kWarning, "cannot deliver a denial to the webhook").Add("url", webhook_);
  }
  attempts_ = 0;
  queued_.Give(queue_.front().sandbox);
  queue_.pop_front();
  dropped_ = 0;
  posting_ = false;
  if (!queue_.empty()) Post();
}

}  // namespace atl::daemon
