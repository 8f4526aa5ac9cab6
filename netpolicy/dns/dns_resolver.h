// Resolves lookups from the cache or by asking the upstreams. Equal lookups in flight share one
// exchange. Who may know the answer is decided elsewhere (dns_gate.h).
//
// Thread rule: on the loop. Must not be destroyed from within one of its callbacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "netpolicy/address/ip.h"
#include "netpolicy/dns/dns_answer.h"
#include "netpolicy/dns/dns_cache.h"
#include "netpolicy/dns/dns_exchange.h"
#include "netpolicy/dns/dns_lookup.h"
#include "netpolicy/dns/dns_upstreams.h"
#include "runtime/base/clock.h"
#include "runtime/base/loop.h"

namespace atl::netpolicy {

class DnsResolver {
 public:
  struct Limits {
    DnsCache::Limits cache;
    DnsTimeouts timeouts;
  };
  // 0 is never a valid id.
  using Id = uint64_t;
  // Called once, on the loop, never from within the call that it was passed to. A failure is an
  // answer with kServerFailure, or with the code that the upstream sent.
  using Done = std::function<void(const std::shared_ptr<const DnsAnswer>&)>;
  // The list is empty if the name has no address, or if no upstream could be asked. `ttl`: seconds
  // for which the addresses are valid.
  using Resolved = std::function<void(std::vector<IpAddress> addresses, uint32_t ttl)>;

  DnsResolver(DnsUpstreams upstreams, Limits limits, const Clock& clock)
      : upstreams_(std::move(upstreams)), limits_(limits), clock_(clock), cache_(limits.cache) {}
  DnsResolver(const DnsResolver&) = delete;
  DnsResolver& operator=(const DnsResolver&) = delete;
  ~DnsResolver();

  // Call first. `loop` must outlive this object.
  void Start(Loop& loop) { loop_ = &loop; }

  DnsCache::Hit Cached(const DnsLookup& lookup);
  // Returns false if there is no upstream.
  bool CanAsk() { return !upstreams_.Current().empty(); }
  bool Asking(const DnsLookup& lookup) const { return flights_.contains(lookup); }
  size_t exchanges() const { return flights_.size(); }

  // Joins an exchange in flight, or starts one.
  Id Ask(const DnsLookup& lookup, Done done);
  // Resolves the addresses of a host through the cache. `type`: kDnsTypeA or kDnsTypeAaaa.
  // `may_begin`: whether a new exchange may be started; if not, the call fails unless one is in
  // flight.
  Id Resolve(std::string_view name, uint16_t type, bool may_begin, Resolved resolved);
  // Drops the callback: it will not be called. An unknown id is ignored.
  void Cancel(Id id);

 private:
  struct Flight {
    std::unique_ptr<DnsExchange> exchange;
    std::set<Id> askers;
  };
  using Flights = std::map<DnsLookup, Flight>;
  struct Asker {
    Done done;
    std::optional<Flights::iterator> flight;
    Loop::Id timer = 0;  // timer of an answer that is already there
  };
  void OnMessage(Flights::iterator flight, std::span<const uint8_t> message);
  void Land(Id id, const std::shared_ptr<const DnsAnswer>& answer);
  Id LandSoon(std::shared_ptr<const DnsAnswer> answer, Done done);

  DnsUpstreams upstreams_;
  Limits limits_;
  const Clock& clock_;
  Loop* loop_ = nullptr;
  DnsCache cache_;
  Flights flights_;
  Id next_id_ = 1;
  std::map<Id, Asker> askers_;
};

}  // namespace atl::netpolicy
