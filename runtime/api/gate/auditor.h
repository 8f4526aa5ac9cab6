// Turns requests and events of the daemon into lines of the audit log.
//
// Lines that strangers cause are bounded: refused keys and rights to kRefusalsPerSecond, denied
// destinations to the first in a minute, ports to the first use in ten minutes. A later line has
// the number of those left out.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/base/clock.h"
#include "runtime/http/message.h"
#include "runtime/tenants/audit/audit_log.h"
#include "runtime/tenants/audit/level.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/identity.h"

namespace atl::api {

class Auditor {
 public:
  static constexpr int kRefusalsPerSecond = 20;
  static constexpr int64_t kPortUs = 600'000'000;
  static constexpr int64_t kDenialUs = 60'000'000;
  // Most ports, or denied destinations, that are remembered.
  static constexpr size_t kRemembered = 4096;

  // Adds what is known of a sandbox: its owner, name and image. Does nothing for an unknown id, nor
  // for the sandbox of another tenant than the event's.
  using Describe = std::function<void(const std::string& id, audit::Event* event)>;

  // `log` is borrowed. `secret` is the daemon's; the key of HMACs is derived from it.
  Auditor(audit::AuditLog& log, const Clock& clock, audit::Levels levels,
          const std::string& secret);
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  void SetDescribe(Describe describe) { describe_ = std::move(describe); }
  void SetLevels(audit::Levels levels) { levels_ = std::move(levels); }

  audit::Level LevelOf(std::string_view action) const { return levels_.For(action); }
  audit::AuditLog& log() const { return log_; }
  const Clock& clock() const { return clock_; }
  // Returns 64 hexadecimal digits: equal for equal texts, and of no use to guess them without the
  // daemon's secret.
  std::string Hmac(std::string_view text) const;
  void DescribeSandbox(const std::string& id, audit::Event* event) const;

  // Writes the event without keys and tokens, unless the level of its action is none.
  void Write(audit::Event event) const;
  // An event that no request caused. `id`: the sandbox that it is about; empty: none.
  void WriteOwn(std::string_view action, const std::string& id, std::vector<audit::Fact> what);

  // A request without a right key or token ("login.failed"), or without the right to its route
  // ("authz.denied"). `holder`: of the key or token that the request shows; null: nobody known.
  // `sandbox`: the one that it would enter; else empty.
  void Refused(std::string_view action, const http::Request& request, std::string_view request_id,
               std::string_view reason, const tenants::Identity* holder, std::string_view sandbox);
  // Returns true if this is the first use of the port by that key for ten minutes.
  bool IsFirstUse(std::string_view key_id, std::string_view sandbox, std::string_view port);
  // A sandbox was denied a destination `count` times.
  void Denied(const std::string& sandbox, const std::string& destination, std::string_view reason,
              uint64_t count);

 private:
  struct Seen {
    int64_t at_us = 0;
    uint64_t count = 0;  // uses since the last line
  };
  using Table = std::unordered_map<std::string, Seen>;
  // Returns the entry if it is new or older than `age_us`, else null.
  Seen* Renew(Table* table, const std::string& key, int64_t age_us) const;

  audit::AuditLog& log_;
  const Clock& clock_;
  audit::Levels levels_;
  const std::string hmac_key_;
  Describe describe_;
  int64_t second_ = 0;  // the second that `refusals_` counts
  int refusals_ = 0;
  uint64_t left_out_ = 0;
  Table ports_;
  Table denials_;
};

// Returns the source of a request: address, User-Agent without secrets, and the way.
audit::Source SourceOf(const http::Request& request);
audit::Actor ActorOf(const tenants::Caller& caller);
// Returns the trace id of a valid traceparent (W3C Trace Context), else nothing.
std::string TraceOf(const http::Request& request);

}  // namespace atl::api
