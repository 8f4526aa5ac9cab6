#include "netpolicy/dns/dns_cache.h"

#include <utility>

namespace atl::netpolicy {
namespace {

constexpr int64_t kSecond = 1'000'000;
// Bytes of the tree node, the list node and the reference counts of one entry.
constexpr size_t kOverhead = 192;

bool MayBeKept(const DnsAnswer& answer) {
  return answer.ttl > 0 && !answer.truncated &&
         (answer.rcode == DnsRcode::kNoError || answer.rcode == DnsRcode::kNxDomain);
}

}  // namespace

DnsCache::Hit DnsCache::Find(const DnsLookup& lookup, int64_t now_us) {
  const auto found = entries_.find(lookup);
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  const int64_t age = (now_us - entry.kept_us) / kSecond;
  if (age >= entry.answer->ttl) {
    Drop(found);
    return {};
  }
  uses_.splice(uses_.begin(), uses_, entry.use);
  return {entry.answer, static_cast<uint32_t>(age)};
}

void DnsCache::Keep(const DnsLookup& lookup, std::shared_ptr<const DnsAnswer> answer,
                    int64_t now_us) {
  if (const auto old = entries_.find(lookup); old != entries_.end()) Drop(old);
  if (!MayBeKept(*answer)) return;
  const size_t bytes = kOverhead + lookup.name.capacity() + answer->MemorySize();
  if (bytes > limits_.bytes || limits_.entries == 0) return;
  while (entries_.size() >= limits_.entries || bytes_ + bytes > limits_.bytes) {
    Drop(uses_.back());
  }
  const auto entry =
      entries_.emplace(lookup, Entry{std::move(answer), now_us, bytes, uses_.end()}).first;
  entry->second.use = uses_.insert(uses_.begin(), entry);
  bytes_ += bytes;
}

void DnsCache::Drop(Entries::iterator entry) {
  bytes_ -= entry->second.bytes;
  uses_.erase(entry->second.use);
  entries_.erase(entry);
}

}  // namespace atl::netpolicy
