#include "netpolicy/dns/dns_sources.h"

#include <algorithm>

namespace atl::netpolicy {
namespace {

constexpr size_t kFirstSweep = 1024;

}  // namespace

bool DnsBucket::Take(const DnsRate& rate, int64_t now_us) {
  const int64_t token = std::max<int64_t>(1, int64_t{1'000'000} / rate.per_second);
  const int64_t full = std::max(full_us_, now_us);
  if (full - now_us > token * (int64_t{rate.burst} - 1)) return false;
  full_us_ = full + token;
  return true;
}

DnsSources::Usage& DnsSources::At(std::string_view source, int64_t now_us) {
  if (const auto found = sources_.find(source); found != sources_.end()) return found->second;
  if (sources_.size() >= std::max(sweep_at_, kFirstSweep)) Sweep(now_us);
  return sources_[std::string(source)];
}

// Removes sources that have nothing in flight and full buckets: they are the same as unknown ones.
// The next sweep waits until the number of sources has doubled, so that the cost per question stays
// negligible.
void DnsSources::Sweep(int64_t now_us) {
  std::erase_if(sources_, [now_us](const auto& source) {
    const Usage& usage = source.second;
    return usage.queries == 0 && usage.connections == 0 && usage.questions.Full(now_us) &&
           usage.leaving.Full(now_us);
  });
  sweep_at_ = 2 * sources_.size();
}

bool DnsSources::TakeQuestion(std::string_view source, int64_t now_us) {
  return At(source, now_us).questions.Take(limits_.questions, now_us);
}

bool DnsSources::TakeLeaving(std::string_view source, int64_t now_us) {
  return At(source, now_us).leaving.Take(limits_.leaving, now_us);
}

bool DnsSources::AddQuery(std::string_view source, size_t share, int64_t now_us) {
  Usage& usage = At(source, now_us);
  if (usage.queries >= std::min(limits_.queries, share)) return false;
  ++usage.queries;
  return true;
}

bool DnsSources::AddConnection(std::string_view source, size_t share, int64_t now_us) {
  Usage& usage = At(source, now_us);
  if (usage.connections >= std::min(limits_.connections, share)) return false;
  ++usage.connections;
  return true;
}

void DnsSources::RemoveQuery(std::string_view source) {
  const auto found = sources_.find(source);
  if (found != sources_.end() && found->second.queries > 0) --found->second.queries;
}

void DnsSources::RemoveConnection(std::string_view source) {
  const auto found = sources_.find(source);
  if (found != sources_.end() && found->second.connections > 0) --found->second.connections;
}

void DnsSources::Forget(std::string_view source) {
  const auto found = sources_.find(source);
  if (found != sources_.end()) sources_.erase(found);
}

}  // namespace atl::netpolicy
