// Sends metrics to an OpenTelemetry collector (OTLP over HTTP) at an interval.
//
// One document is in flight at a time. A document that cannot be delivered is dropped: the next has
// all of its counts. A slow collector is asked less often, so that one that hangs has a fifth of
// one of the pool's threads at most. The log says once in ten minutes that it cannot be reached.
//
// Thread rule: on the loop; JSON is made and posted by a pool thread.
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
  static constexpr int64_t kQuietUs = 600'000'000;  // between two lines about the same trouble

  // Posts a document: PostJson, unless a test has its own. Called on a pool thread.
  using Post = std::function<Result<int>(const OtelSettings& settings, std::string document)>;

  // Collects the metrics to send. Called on the loop.
  using Collect = std::function<MetricSet()>;
  MetricsExport(Loop& loop, const Clock& clock, OtelSettings settings, Collect collect,
                Post post = nullptr);
  MetricsExport(const MetricsExport&) = delete;
  MetricsExport& operator=(const MetricsExport&) = delete;

  // The first document goes after one interval.
  void Start() { SendLater(settings_->interval_us); }
  // Sends what there is now, and no more after that. `done` is called once, when it has been taken
  // or could not be, after `limit_us` at the latest.
  void Finish(int64_t limit_us, std::function<void()> done);

 private:
  void SendLater(int64_t delay_us);
  void Send();
  void Sent(const Status& sent, int64_t began_us);
  void Tell(const Status& sent);
  void Done();

  Loop& loop_;
  const Clock& clock_;
  const std::shared_ptr<const OtelSettings> settings_;
  const Collect collect_;
  const Post post_;
  const int64_t began_us_;  // since the Unix epoch: what is counted, is from then on
  bool sending_ = false;
  bool failing_ = false;
  int64_t told_us_ = -kQuietUs;
  std::function<void()> done_;  // of Finish
  bool finishing_ = false;
  // Work of the pool may outlive us.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace atl::daemon
