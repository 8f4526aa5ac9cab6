// Reports denials of sandboxes to the operator: a log line for each, and a POST to a webhook with
//
//   {"hostname", "timestamp", "source": "opensandbox-egress", "sandboxId"} as upstream has it, and
//   "address", "port", "protocol", "reason", "count", and "tenant" of a sandbox that has one
//
// A report is dropped after four failed attempts, or if 256 others are queued. No sandbox takes
// more than an eighth of what is left of the queue or of the log lines, so one that is denied
// without end does not suppress the reports of others.
//
// Thread rule: on the loop; a pool thread makes the POST, one at a time.
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
  // Most log lines of all sandboxes together.
  static constexpr size_t kLinesPerSecond = 100;

  // `webhook`: a URL; empty: none.
  DenialReport(Loop& loop, std::string webhook) : loop_(loop), webhook_(std::move(webhook)) {}
  DenialReport(const DenialReport&) = delete;
  DenialReport& operator=(const DenialReport&) = delete;

  void AddMetrics(MetricSet* metrics) const;

  // `tenant`: the sandbox's; empty: none.
  void Report(const std::string& sandbox, const std::string& tenant,
              const netpolicy::Denial& denial);

 private:
  void Log(const std::string& sandbox, const std::string& tenant, const netpolicy::Denial& denial);
  void Post();
  void Posted(bool delivered);

  Loop& loop_;
  const std::string webhook_;
  struct Waiting {
    std::string sandbox;
    std::string body;
  };
  std::deque<Waiting> queue_;  // the first one is in flight
  netpolicy::FairShares queued_{kQueue};
  bool posting_ = false;
  int attempts_ = 0;
  uint64_t dropped_ = 0;
  std::map<std::string, uint64_t> denied_;  // key: reason; netpolicy has only a few
  uint64_t undelivered_ = 0;
  int64_t second_ = 0;  // the second that `lines_` counts
  netpolicy::FairShares lines_{kLinesPerSecond};
  // Work on the pool may outlive this object.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace atl::daemon
