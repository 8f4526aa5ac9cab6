// The recent denials of one sandbox.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "netpolicy/address/ip.h"

namespace atl::netpolicy {

struct Denial {
  int64_t time_ms = 0;   // time of the first one, milliseconds since the epoch
  std::string hostname;  // empty: unknown
  std::string address;   // empty: the sandbox asked only for a name
  uint16_t port = 0;
  std::string protocol;   // "tcp", "udp", "icmp", "dns", … or a number
  std::string reason;     // "policy", "private answer", "no server name", …
  uint64_t count = 1;     // number of equal denials in a row
  bool by_rules = false;  // a packet that the nftables rules refused and logged

  bool operator==(const Denial&) const = default;
};

class Denials {
 public:
  static constexpr size_t kKept = 100;
  // Above this rate the denials of a sandbox are counted but not reported.
  static constexpr int64_t kPerSecond = 10;
  static constexpr int64_t kBurst = 50;

  // Records a denial. Returns true if it should be reported: it differs from the previous one, and
  // the rate limit is not exceeded.
  bool Add(const Denial& denial, int64_t now_us);

  const std::deque<Denial>& recent() const { return recent_; }  // oldest first
  // Number of denials by the name server and the proxy. The kernel counts those of the rules.
  uint64_t by_name() const { return by_name_; }

 private:
  std::deque<Denial> recent_;
  uint64_t by_name_ = 0;
  int64_t credit_us_ = 0;  // credit of the token bucket; one token is 1 s / kPerSecond
  int64_t last_us_ = 0;
};

// Called with the id of the sandbox and its denial.
using OnDenial = std::function<void(const std::string& sandbox, const Denial&)>;

}  // namespace atl::netpolicy
