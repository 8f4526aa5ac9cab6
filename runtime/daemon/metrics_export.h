// Sends metrics to an OpenTelemetry collector (OTLP over HTTP) at an interval.
//
// One document is in flight at a time. A document that cannot be delivered is dropped, because the
// next one has all of its counts. A slow collector is asked less often, so that it uses at most a
// fifth of one pool thread. Failures are logged once in ten minutes.
//
// Thread rule: on the loop; a pool thread makes and posts the JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/daemon/otel_settings.h"

namespace atl::daemon {

class MetricsExport {
 public:
  static constexpr int64_t kTimeoutUs = 5'000'000;
  static constexpr int64_t kQuietUs = 600'000'000;  // interval of log lines about the same problem

  // Posts a document. PostJson unless a test replaces it. Called on a pool thread.
  using Post = std::function<Result<int>(const OtelSettings& settings, std::string document)>;

  // Collects the metrics to send. Called on the loop.
  using Collect = std::function<MetricSet()>;
  MetricsExport(Loop& loop, const Clock& clock, OtelSettings settings, Collect collect,
                Post post = nullptr);
  MetricsExport(const MetricsExport&) = delete;
  MetricsExport& operator=(const MetricsExport&) = delete;

  // Starts; the first document is sent after one interval.
  void Start() { SendLater(settings_->interval_us); }
  // Sends the current metrics for the last time. `done` is called once, when they were delivered or
  // have failed, after `limit_us` at the latest.
  void Finish(int64_t limit_us, std::function<void()> done);

 private:
  void SendLater(int64_t delay_us);
  void Send();
  void Sent(const Status& sent, int64_t began_us);
  void LogResult(const Status& sent);
  void Done();

  Loop& loop_;
  const Clock& clock_;
  const std::shared_ptr<const OtelSettings> settings_;
  const Collect collect_;
  const Post post_;
  const int64_t began_us_;  // since the Unix epoch: the start of all counts
  bool sending_ = false;
  bool failing_ = false;
  int64_t logged_us_ = -kQuietUs;
  std::function<void()> done_;  // callback of Finish
  bool finishing_ = false;
  // Work on the pool may outlive this object.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace atl::daemon
