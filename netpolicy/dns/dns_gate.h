// What the name server asks about a question and its answer: who may know which name, and what
// follows from an answer. Implemented by the engine of the policies; the name server knows nothing
// of them.
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

// Names of a source under a policy that leave the host, in questions or in connections: a tunnel
// wants long ones.
inline constexpr size_t kPolicedNameBytes = 200;
inline constexpr size_t kPolicedNameLabels = 10;

class DnsGate {
 public:
  enum class Verdict : uint8_t {
    kForward,   // ask the upstreams, or the cache
    kNxDomain,  // not for this source
    kLocal,     // `addresses` are the answer, for five seconds; none: no data of that type
  };
  struct Judgement {
    Verdict verdict = Verdict::kForward;
    std::vector<IpAddress> addresses;
    // Questions that leave the host are counted against the budget that makes tunnels useless.
    bool under_policy = false;
  };

  virtual ~DnsGate() = default;

  // `source`: the asker, as the name server is told to name it. `name`: lower case, no dot at the
  // end.
  virtual Judgement Judge(std::string_view source, std::string_view name, uint16_t type) = 0;

  // The addresses that an answer for `name` leads to, before it leaves. False: it must not leave,
  // the asker gets NXDOMAIN instead. `aliases`: the names between `name` and the addresses.
  // `ttl_seconds`: for how long the asker may keep the answer, at most 300; then it asks again.
  virtual bool Learn(std::string_view source, std::string_view name,
                     const std::vector<std::string>& aliases,
                     const std::vector<IpAddress>& addresses, uint32_t ttl_seconds) = 0;
};

}  // namespace atl::netpolicy
