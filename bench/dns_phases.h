// The measurements of bench/dns.
#pragma once

#include <functional>

#include "bench/samples.h"
#include "netpolicy/endpoint.h"
#include "runtime/base/result.h"

namespace atl::bench {

struct DnsRateResult {
  double per_second = 0;
  double per_processor_second = 0;  // of the server's thread
};
// Questions for `names` names over UDP, `kDnsWindow` of them under way, for `milliseconds`.
inline constexpr int kDnsWindow = 64;
Result<DnsRateResult> MeasureDnsRate(const netpolicy::Endpoint& server,
                                     const std::function<double()>& processor_seconds, int names,
                                     int milliseconds);

struct DnsDelays {
  Samples direct;     // client, upstream, client
  Samples forwarded;  // with the name server between them; it has not heard of the name before
  Samples cached;     // the same name again
  double processor_ms =
      0;  // of the server's thread, for one that it forwards and one that it knows
};
// In turn, each after a rest.
Result<DnsDelays> MeasureDnsDelays(const netpolicy::Endpoint& upstream,
                                   const netpolicy::Endpoint& server,
                                   const std::function<double()>& processor_seconds, int count,
                                   int rest_ms);

// The calling process gets a network namespace with nothing but loopback in it.
Status EnterOwnNetwork();

}  // namespace atl::bench
