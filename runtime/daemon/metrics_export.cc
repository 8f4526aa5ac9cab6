#include "runtime/daemon/metrics_export.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/daemon/json_post.h"
#include "runtime/daemon/otlp_json.h"

namespace atl::daemon {
namespace {

Status PostDocument(const MetricsExport::Post& post, const OtelSettings& settings,
                    std::string document) {
  ATOLL_ASSIGN(const int status, post ? post(settings, std::move(document))
                                      : PostJson(settings.url, settings.headers,
                                                 std::move(document), MetricsExport::kTimeoutUs));
  if (status / 100 == 2) return {};
  return Fail(Code::kUnavailable, "the collector answers " + std::to_string(status));
}

}  // namespace

MetricsExport::MetricsExport(Loop& loop, const Clock& clock, OtelSettings settings, Collect collect,
                             Post post)
    : loop_(loop),
      clock_(clock),
      settings_(std::make_shared<const OtelSettings>(std::move(settings))),
      collect_(std::move(collect)),
      post_(std::move(post)),
      began_us_(clock.UnixMillis() * 1000) {}

void MetricsExport::SendLater(int64_t delay_us) {
  loop_.After(delay_us, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && !finishing_) Send();
  });
}

void MetricsExport::Send() {
  MetricSet metrics = collect_();
  const auto& families = metrics.families();
  if (std::all_of(families.begin(), families.end(),
                  [](const auto& f) { return f.samples.empty(); })) {
    return finishing_ ? Done() : SendLater(settings_->interval_us);
  }
  sending_ = true;
  auto sent = std::make_shared<Status>();
  const OtlpContext context{settings_->resource, began_us_, clock_.UnixMillis() * 1000};
  loop_.RunBlocking(
      [sent, context, metrics = std::move(metrics), settings = settings_, post = post_] {
        *sent = PostDocument(post, *settings, OtlpMetrics(metrics, context));
      },
      [this, alive = std::weak_ptr(alive_), sent, began_us = clock_.BootMicros()] {
        if (!alive.expired()) Sent(*sent, began_us);
      });
}

void MetricsExport::Sent(const Status& sent, int64_t began_us) {
  sending_ = false;
  LogResult(sent);
  if (finishing_) return Done();
  SendLater(std::max(settings_->interval_us, 4 * (clock_.BootMicros() - began_us)));
}

void MetricsExport::LogResult(const Status& sent) {
  if (sent) {
    if (std::exchange(failing_, false)) LogLine(LogLevel::kInfo, "exporting metrics works again");
    return;
  }
  const int64_t now = clock_.BootMicros();
  if (now - logged_us_ < kQuietUs) return;
  logged_us_ = now;
  failing_ = true;
  LogLine(LogLevel::kWarning, "cannot export metrics; counting continues")
      .Add("url", settings_->url)
      .Add(sent.error());
}

void MetricsExport::Finish(int64_t limit_us, std::function<void()> done) {
  finishing_ = true;
  done_ = std::move(done);
  loop_.After(limit_us, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) Done();
  });
  // A document in flight counts as the last one: a collector that does not take it would not take
  // another.
  if (!sending_) Send();
}

void MetricsExport::Done() {
  if (done_) std::exchange(done_, nullptr)();
}

}  // namespace atl::daemon
