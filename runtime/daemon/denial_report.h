// Tells people what sandboxes were denied: a log line each, and a POST to the operator's webhook.
//
//   {"hostname", "timestamp", "source": "opensandbox-egress", "sandboxId"} as upstream has it, and
//   "address", "port", "protocol", "reason", "count"
//
// What cannot be delivered in four attempts is dropped, and so is what comes while 256 wait. Of the
// queue and of the log's lines nobody takes more than an eighth of what is left: one sandbox that
// is denied without end does not keep the others' denials from being told.
//
// Thread rule: on the loop; the POST is made by a pool thread, one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "netpolicy/address/fair_share.h"
#include "netpolicy/policy/denials.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"

namespace atl::daemon {

class DenialReport {
 public:
  static constexpr size_t kQueue = 256;
  static constexpr int kAttempts = 4;
  static constexpr int64_t kTimeoutUs = 5'000'000;
  // Log lines of all sandboxes together.
  static constexpr size_t kLinesPerSecond = 100;

  // `webhook`: a URL, or empty.
  DenialReport(Loop& loop, std::string webhook) : loop_(loop), webhook_(std::move(webhook)) {}
  DenialReport(const DenialReport&) = delete;
  DenialReport& operator=(const DenialReport&) = delete;

  void AddMetrics(MetricSet* metrics) const;

  void Report(const std::string& sandbox, const netpolicy::Denial& denial);

 private:
  void Log(const std::string& sandbox, const netpolicy::Denial& denial);
  void Post();
  void Posted(bool delivered);

  Loop& loop_;
  const std::string webhook_;
  struct Waiting {
    std::string sandbox;
    std::string body;
  };
  std::deque<Waiting> queue_;  // the first is under way
  netpolicy::FairShares queued_{kQueue};
  bool posting_ = false;
  int attempts_ = 0;
  uint64_t dropped_ = 0;
  std::map<std::string, uint64_t> denied_;  // by reason, of which netpolicy has a few
  uint64_t undelivered_ = 0;
  int64_t second_ = 0;  // that `lines_` counts
  netpolicy::FairShares lines_{kLinesPerSecond};
  // Work of the pool may outlive us.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace atl::daemon
