// The addresses that names have led one slot to: what the kernel's sets hold, with the names, and
// for a while what they held.
//
// Thread rule: a value; its keys() may be read by any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netpolicy/rules/policy_sets.h"

namespace atl::netpolicy {

// The keys of a Learned, for whoever judges flows on another thread: as they are when asked.
class LearnedKeys {
 public:
  bool Has(const LearnedKey& key) const {
    const std::lock_guard lock(mutex_);
    return keys_.contains(key);
  }

 private:
  friend class Learned;
  void Insert(const LearnedKey& key) {
    const std::lock_guard lock(mutex_);
    keys_.insert(key);
  }
  void Erase(const LearnedKey& key) {
    const std::lock_guard lock(mutex_);
    keys_.erase(key);
  }

  mutable std::mutex mutex_;
  std::set<LearnedKey> keys_;
};

class Learned {
 public:
  Learned() = default;
  Learned(Learned&&) = default;
  Learned& operator=(Learned&&) = default;

  // A sandbox that learns more loses what expires first.
  static constexpr size_t kMost = 1024;

  struct Entry {
    std::string name;  // empty: learned by an earlier daemon
    int64_t expires_us = 0;
  };
  using Entries = std::map<LearnedKey, Entry>;

  // True if the kernel has to be told: the entry is new, or ends before `needed_us`.
  bool IsDue(const LearnedKey& key, int64_t needed_us) const;
  // The kernel is about to be told: a flow may begin by it before Add. Remove takes it back.
  void Expect(const LearnedKey& key) { keys_->Insert(key); }
  // What the kernel has been told. The key that had to go for it, if there was no room.
  std::optional<LearnedKey> Add(const LearnedKey& key, Entry entry);
  void Remove(const LearnedKey& key);

  // By those that have expired too: of flows that outlive what let them through.
  bool Has(const LearnedKey& key) const { return entries_.contains(key); }
  // The name that led to the address, or empty.
  std::string NameOf(const IpAddress& address) const;

  const Entries& entries() const { return entries_; }
  // Those of entries(), and those that are expected.
  std::shared_ptr<const LearnedKeys> keys() const { return keys_; }

 private:
  void Drop(const LearnedKey& key);

  Entries entries_;
  std::set<std::pair<int64_t, LearnedKey>> by_expiry_;
  std::shared_ptr<LearnedKeys> keys_ = std::make_shared<LearnedKeys>();
};

}  // namespace atl::netpolicy
