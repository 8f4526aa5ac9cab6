// The decisions that the name server asks for: which names a source may know, and what follows from
// an answer. Implemented by the policy engine. The name server knows nothing about policies.
//
// Thread rule: on the loop; no call blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/address/ip.h"

namespace atl::netpolicy {

// Longest name of a policed source that may leave the host, in a question or in a connection.
// Tunnels need long names.
inline constexpr size_t kPolicedNameBytes = 200;
inline constexpr size_t kPolicedNameLabels = 10;

class DnsGate {
 public:
  enum class Verdict : uint8_t {
    kForward,   // ask the cache or the upstreams
    kNxDomain,  // the name does not exist for this source
    kLocal,     // `addresses` are the answer, valid for five seconds; empty: no data of that type
  };
  struct Judgement {
    Verdict verdict = Verdict::kForward;
    std::vector<IpAddress> addresses;
    // Set if questions that leave the host count against the budget that makes tunnels useless.
    bool under_policy = false;
  };

  virtual ~DnsGate() = default;

  // Judges a question. `source`: the key of the asker (DnsForwarder::Config::source_of). `name`:
  // lower case, no trailing dot.
  virtual Judgement Judge(std::string_view source, std::string_view name, uint16_t type) = 0;

  // Learns the addresses that `name` resolves to, before the answer leaves. Returns false if the
  // answer must not leave; the client then gets NXDOMAIN. `aliases`: the names between `name` and
  // the addresses. `ttl_seconds`: how long the client may keep the answer before it asks again, at
  // most 300.
  virtual bool Learn(std::string_view source, std::string_view name,
                     const std::vector<std::string>& aliases,
                     const std::vector<IpAddress>& addresses, uint32_t ttl_seconds) = 0;
};

}  // namespace atl::netpolicy
