// Answers that may be given again, for all sources together. Bounded by number and by bytes; what
// was not asked for the longest time goes first.
//
// Names come from the sandboxes: a search tree, not a hash table, whose work their choice of names
// could make linear.
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
    size_t bytes = size_t{16} << 20;  // about: with what the tree needs for itself
  };
  struct Hit {
    std::shared_ptr<const DnsAnswer> answer;  // nothing: not here
    uint32_t age = 0;                         // seconds, less than the answer's TTL
  };

  explicit DnsCache(Limits limits) : limits_(limits) {}

  Hit Find(const DnsLookup& lookup, int64_t now_us);
  // Those with a TTL of 0, and failures, are not kept.
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
  std::list<Entries::iterator> uses_;  // the latest first
  size_t bytes_ = 0;
};

}  // namespace atl::netpolicy
