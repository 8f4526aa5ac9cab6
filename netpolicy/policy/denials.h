// What was denied to one sandbox lately.
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
  int64_t time_ms = 0;   // of the first, since the epoch
  std::string hostname;  // empty: not known
  std::string address;   // empty: none was asked for, only a name
  uint16_t port = 0;
  std::string protocol;   // "tcp", "udp", "icmp", "dns", … or a number
  std::string reason;     // "policy", "private answer", "no server name", …
  uint64_t count = 1;     // of the same in a row
  bool by_rules = false;  // a packet, as the rules have logged it
};

class Denials {
 public:
  static constexpr size_t kKept = 100;
  // Beyond this rate a sandbox's denials are only counted.
  static constexpr int64_t kPerSecond = 10;
  static constexpr int64_t kBurst = 50;

  // True if it is news: not the same again, and not one of too many.
  bool Add(const Denial& denial, int64_t now_us);

  const std::deque<Denial>& recent() const { return recent_; }  // oldest first
  // All that name server and proxy denied; what the rules refuse the kernel counts.
  uint64_t by_name() const { return by_name_; }

 private:
  std::deque<Denial> recent_;
  uint64_t by_name_ = 0;
  int64_t credit_us_ = 0;  // of the token bucket: a token is a second over kPerSecond
  int64_t last_us_ = 0;
};

// Takes a refusal and the id of the sandbox that met it.
using OnDenial = std::function<void(const std::string& sandbox, const Denial&)>;

}  // namespace atl::netpolicy
