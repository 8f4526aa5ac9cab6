// Sends measurements to OpenTelemetry's collector (OTLP over HTTP), again and again.
//
// One document is under way at a time. One that cannot be delivered is not kept: the next has all
// of its counts. Whoever takes long is asked the more seldom, so that a collector that hangs has a
// fifth of one of the pool's threads at most; and a dead one is in the log once in ten minutes.
//
// Thread rule: on the loop; JSON is made and posted by a pool thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/api/measurements.h"
#include "runtime/base/clock.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/daemon/otel_settings.h"

namespace atl::daemon {

class MetricsExport {
 public:
  static constexpr int64_t kTimeoutUs = 5'000'000;
  static constexpr int64_t kQuietUs = 600'000'000;  // between two lines about the same trouble

  // Posts a document: PostJson, unless a test has its own. Called on a pool thread.
  using Post = std::function<Result<int>(const OtelSettings& settings, std::string document)>;

  MetricsExport(Loop& loop, const Clock& clock, OtelSettings settings,
                std::shared_ptr<const api::Measurements> measurements, Post post = nullptr);
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
  const std::shared_ptr<const api::Measurements> measurements_;
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
