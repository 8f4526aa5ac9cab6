#include "netpolicy/dns/dns_resolver.h"

#include <utility>

namespace atl::netpolicy {
namespace {

DnsAnswer Failure() {
  DnsAnswer answer;
  answer.rcode = DnsRcode::kServerFailure;
  return answer;
}

}  // namespace

DnsResolver::~DnsResolver() {
  for (const auto& [id, asker] : askers_) {
    if (asker.timer != 0) loop_->Cancel(asker.timer);
  }
}

DnsCache::Hit DnsResolver::Cached(const DnsLookup& lookup) {
  return cache_.Find(lookup, clock_.BootMicros());
}

DnsResolver::Id DnsResolver::Ask(const DnsLookup& lookup, Done done) {
  auto flight = flights_.find(lookup);
  if (flight == flights_.end()) {
    const std::vector<Endpoint>& upstreams = upstreams_.Current();
    if (upstreams.empty()) {
      return LandSoon(std::make_shared<const DnsAnswer>(Failure()), std::move(done));
    }
    flight = flights_.emplace(lookup, Flight{}).first;
    flight->second.exchange = std::make_unique<DnsExchange>(
        *loop_, lookup, upstreams, limits_.timeouts,
        [this](const Endpoint& failed) { upstreams_.Demote(failed); },
        [this, flight](std::span<const uint8_t> message) { OnMessage(flight, message); });
  }
  const Id id = next_id_++;
  flight->second.askers.insert(id);
  askers_.emplace(id, Asker{std::move(done), flight, 0});
  return id;
}

void DnsResolver::OnMessage(Flights::iterator flight, std::span<const uint8_t> message) {
  // The message belongs to the exchange, which is destroyed with the flight at the end of this
  // function.
  const auto landed = flights_.extract(flight);
  const DnsLookup& lookup = landed.key();
  auto read = ReadDnsAnswer(lookup, message);
  const auto answer = std::make_shared<const DnsAnswer>(read ? std::move(*read) : Failure());
  cache_.Keep(lookup, answer, clock_.BootMicros());
  // A callback may cancel later ones, or ask the same question again.
  for (const Id id : landed.mapped().askers) {
    const auto asker = askers_.find(id);
    if (asker != askers_.end()) asker->second.flight.reset();
  }
  for (const Id id : landed.mapped().askers) Land(id, answer);
}

void DnsResolver::Land(Id id, const std::shared_ptr<const DnsAnswer>& answer) {
  const auto asker = askers_.extract(id);
  if (!asker.empty()) asker.mapped().done(answer);
}

DnsResolver::Id DnsResolver::LandSoon(std::shared_ptr<const DnsAnswer> answer, Done done) {
  const Id id = next_id_++;
  const Loop::Id timer =
      loop_->After(0, [this, id, answer = std::move(answer)] { Land(id, answer); });
  askers_.emplace(id, Asker{std::move(done), std::nullopt, timer});
  return id;
}

DnsResolver::Id DnsResolver::Resolve(std::string_view name, uint16_t type, bool may_begin,
                                     Resolved resolved) {
  const auto lookup = LookupOf(name, type);
  const DnsCache::Hit hit = lookup ? Cached(*lookup) : DnsCache::Hit{};
  auto done = [resolved = std::move(resolved), age = hit.age](const auto& answer) {
    resolved(answer->addresses, answer->addresses.empty() ? 0 : answer->ttl - age);
  };
  if (hit.answer) return LandSoon(hit.answer, std::move(done));
  if (!lookup || (!may_begin && !Asking(*lookup))) {
    return LandSoon(std::make_shared<const DnsAnswer>(Failure()), std::move(done));
  }
  return Ask(*lookup, std::move(done));
}

void DnsResolver::Cancel(Id id) {
  const auto asker = askers_.extract(id);
  if (asker.empty()) return;
  if (asker.mapped().timer != 0) loop_->Cancel(asker.mapped().timer);
  const auto flight = asker.mapped().flight;
  if (!flight) return;
  Flight& joined = (*flight)->second;
  joined.askers.erase(id);
  if (joined.askers.empty()) flights_.erase(*flight);
}

}  // namespace atl::netpolicy
