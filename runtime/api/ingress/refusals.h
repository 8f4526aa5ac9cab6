// Requests that were refused for what they had to show: counted, and a line of the log for each,
// at most kLinesPerSecond of them, so that somebody who tries keys does not fill the log.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/metrics.h"
#include "runtime/http/message.h"

namespace atl::api {

class Refusals {
 public:
  static constexpr int kLinesPerSecond = 20;

  enum class Reason {
    kMissingKey,
    kWrongKey,
    kWebPage,       // there is no key
    kSandboxToken,  // of a way into a sandbox: a wrong token or signature, or none
  };
  // `secret`: see KeyId.
  explicit Refusals(std::string secret) : secret_(std::move(secret)) {}

  // `sandbox`: whose token was asked for; else empty.
  void Add(Reason reason, const http::Request& request, std::string_view sandbox = {});
  void AddMetrics(MetricSet* metrics) const;

 private:
  const std::string secret_;
  std::array<uint64_t, 4> counts_{};
  int64_t second_ = 0;  // that `lines_` counts
  int lines_ = 0;
  uint64_t unlogged_ = 0;
};

}  // namespace atl::api
