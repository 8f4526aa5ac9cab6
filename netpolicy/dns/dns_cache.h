// Cache of answers, shared by all sources. Bounded by number and by bytes; the least recently used
// answer is evicted first.
//
// Sandboxes choose the names. Therefore the index is a search tree: they could choose names that
// make a hash table linear.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "netpolicy/dns/dns_answer.h"
#include "netpolicy/dns/dns_lookup.h"

namespace atl::netpolicy {

class DnsCache {
 public:
  struct Limits {
    size_t entries = 16'384;
    size_t bytes = size_t{16} << 20;  // approximate, including the overhead of the tree
  };
  struct Hit {
    std::shared_ptr<const DnsAnswer> answer;  // null: not cached
    uint32_t age = 0;                         // seconds, less than the answer's TTL
  };

  explicit DnsCache(Limits limits) : limits_(limits) {}

  Hit Find(const DnsLookup& lookup, int64_t now_us);
  // Stores an answer. Failures and answers with a TTL of 0 are not stored.
  void Keep(const DnsLookup& lookup, std::shared_ptr<const DnsAnswer> answer, int64_t now_us);

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry;
  using Entries = std::map<DnsLookup, Entry>;
  struct Entry {
    std::shared_ptr<const DnsAnswer> answer;
    int64_t kept_us = 0;
    size_t bytes = 0;
    std::list<Entries::iterator>::iterator use;
  };
  void Drop(Entries::iterator entry);

  Limits limits_;
  Entries entries_;
  std::list<Entries::iterator> uses_;  // most recently used first
  size_t bytes_ = 0;
};

}  // namespace atl::netpolicy
