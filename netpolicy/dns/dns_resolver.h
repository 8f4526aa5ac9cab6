// Finds answers: in the cache, or by asking the upstreams. Equal lookups that are under way at the
// same time are one exchange.
//
// Who may know the answer is not its business.
//
// Thread rule: on the loop. Must not be destroyed from within a callback of its own.
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
  // Called once, on the loop, never from inside the call that it was given to. A failure is an
  // answer, too: with kServerFailure or what the upstream said.
  using Done = std::function<void(const std::shared_ptr<const DnsAnswer>&)>;
  // No addresses: there are none, or nobody could be asked. `ttl`: seconds that they remain true.
  using Resolved = std::function<void(std::vector<IpAddress> addresses, uint32_t ttl)>;

  DnsResolver(DnsUpstreams upstreams, Limits limits, const Clock& clock)
      : upstreams_(std::move(upstreams)), limits_(limits), clock_(clock), cache_(limits.cache) {}
  DnsResolver(const DnsResolver&) = delete;
  DnsResolver& operator=(const DnsResolver&) = delete;
  ~DnsResolver();

  // Before all that follows; `loop` must outlive this object.
  void Start(Loop& loop) { loop_ = &loop; }

  DnsCache::Hit Cached(const DnsLookup& lookup);
  // False: there is nobody to ask.
  bool CanAsk() { return !upstreams_.Current().empty(); }
  bool Asking(const DnsLookup& lookup) const { return flights_.contains(lookup); }
  size_t exchanges() const { return flights_.size(); }

  // Joins an exchange that is under way, or begins one.
  Id Ask(const DnsLookup& lookup, Done done);
  // The addresses of a host, kDnsTypeA or kDnsTypeAaaa, by way of the cache. `may_begin`:
  // an exchange; otherwise it fails unless one is under way.
  Id Resolve(std::string_view name, uint16_t type, bool may_begin, Resolved resolved);
  // The callback is not called any more. An unknown id is ignored.
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
    Loop::Id timer = 0;  // of an answer that is there already
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
