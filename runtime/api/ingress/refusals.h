// Counts requests that were refused for wrong or missing credentials, and logs them. The log gets
// at most kLinesPerSecond lines, so that an attacker who tries keys cannot fill it.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/api/gate/auditor.h"
#include "runtime/api/gate/rights.h"
#include "runtime/base/metrics.h"
#include "runtime/http/message.h"

namespace atl::api {

class Refusals {
 public:
  static constexpr int kLinesPerSecond = 20;

  enum class Reason {
    kMissingKey,
    kWrongKey,
    kWebPage,       // a page's request to a daemon without a key
    kSandboxToken,  // a wrong or missing token or signature of a sandbox
    kExpiredKey,
    kRevokedKey,
    kTenantGone,  // a key of a tenant that is not configured any more
    kProvider,    // the provider of tenants could not be asked
  };
  // `secret` is that of KeyId. `auditor` may be null: no audit log.
  Refusals(std::string secret, std::shared_ptr<Auditor> auditor)
      : secret_(std::move(secret)), auditor_(std::move(auditor)) {}

  // `sandbox` is the sandbox whose token was required; else empty.
  void Add(Reason reason, const http::Request& request, std::string_view request_id,
           std::string_view sandbox = {});
  // Adds the refusal of a request that has been judged by `rights`: a wrong or missing right (401),
  // or a right that the holder of its key or token lacks (403). The auditor gets the latter as
  // "authz.denied". `holder` null: nobody known. `sandbox` is the one that the request would enter.
  void Add(const http::Response& refusal, const Rights& rights, const http::Request& request,
           std::string_view request_id, const tenants::Identity* holder,
           std::string_view sandbox = {});
  void AddMetrics(MetricSet* metrics) const;

 private:
  const std::string secret_;
  const std::shared_ptr<Auditor> auditor_;
  std::array<uint64_t, 8> counts_{};
  std::map<std::string_view, uint64_t> denied_;  // counts by the action of a row, which bounds them
  int64_t second_ = 0;                           // the second that `lines_` counts
  int lines_ = 0;
  uint64_t unlogged_ = 0;
};

}  // namespace atl::api
