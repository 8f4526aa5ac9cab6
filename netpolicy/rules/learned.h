// The addresses that names have led one slot to: what the kernel's sets hold, with the names, and
// for a while what they held.
//
// Thread rule: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netpolicy/rules/policy_sets.h"

namespace atl::netpolicy {

class Learned {
 public:
  // A sandbox that learns more loses what expires first.
  static constexpr size_t kMost = 1024;

  struct Entry {
    std::string name;  // empty: learned by an earlier daemon
    int64_t expires_us = 0;
  };
  using Entries = std::map<LearnedKey, Entry>;

  // True if the kernel has to be told: the entry is new, or ends before `needed_us`.
  bool IsDue(const LearnedKey& key, int64_t needed_us) const;
  // What the kernel has been told. The key that had to go for it, if there was no room.
  std::optional<LearnedKey> Add(const LearnedKey& key, Entry entry);
  void Remove(const LearnedKey& key);

  // By those that have expired too: of flows that outlive what let them through.
  bool Has(const LearnedKey& key) const { return entries_.contains(key); }
  // The name that led to the address, or empty.
  std::string NameOf(const IpAddress& address) const;

  const Entries& entries() const { return entries_; }

 private:
  Entries entries_;
  std::set<std::pair<int64_t, LearnedKey>> by_expiry_;
};

}  // namespace atl::netpolicy
