// The audit log of a daemon, and the events that no request causes: ends of sandboxes, denied
// destinations, reloads, the start and stop of the daemon.
//
// Thread rule: on the loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "netpolicy/policy/denials.h"
#include "runtime/api/gate/auditor.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/daemon/reload.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/tenants/audit/audit_log.h"
#include "runtime/tenants/sinks/shipper.h"

namespace atl::daemon {

class AuditTrail {
 public:
  // Opens the log. `secret` is the daemon's, for HMACs.
  static Result<std::unique_ptr<AuditTrail>> Open(const Config& config, Loop& loop,
                                                  const Clock& clock, Health& health,
                                                  const std::string& secret);
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  const std::shared_ptr<api::Auditor>& auditor() const { return auditor_; }

  // Records what `history` tells, and describes sandboxes by `registry`. Both are borrowed.
  void Watch(const sandbox::Registry& registry, sandbox::History& history);
  void Started();
  // Starts a thread for each of audit.sinks.
  Status StartSinks(const std::vector<std::string>& lines, Loop& loop);
  // Writes the last line, and waits until the log is on the disk.
  void Stopped();
  void Denied(const std::string& sandbox, const netpolicy::Denial& denial);
  // Records the names of the keys that differ, and takes the levels over.
  void Reloaded(const Reload& reload);
  void ReloadFailed();
  void AddMetrics(MetricSet* metrics) const;
  // Returns which sinks take no lines, and have not for a while; empty: all do.
  std::string Trouble() const;

 private:
  AuditTrail(std::unique_ptr<audit::AuditLog> log, std::shared_ptr<api::Auditor> auditor)
      : log_(std::move(log)), auditor_(std::move(auditor)) {}
  void OnEvent(const std::string& id, const sandbox::HistoryEvent& event);

  const std::unique_ptr<audit::AuditLog> log_;
  const std::shared_ptr<api::Auditor> auditor_;
  std::vector<std::unique_ptr<sinks::Shipper>> sinks_;
  const Guard guard_;
};

}  // namespace atl::daemon
