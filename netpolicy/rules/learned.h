// The addresses that names have opened for one slot: those in the kernel's sets, with their names,
// and for a while also those that have expired.
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

// The keys of a Learned for threads that judge flows. Each call sees the current keys.
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

  // Most addresses of a slot. If it learns more, those that expire first are dropped.
  static constexpr size_t kMost = 1024;

  struct Entry {
    std::string name;  // empty: an earlier daemon learned the address
    int64_t expires_us = 0;
  };
  using Entries = std::map<LearnedKey, Entry>;

  // Returns true if the kernel must be updated: the entry is new, or expires before `needed_us`.
  bool IsDue(const LearnedKey& key, int64_t needed_us) const;
  // Call before the kernel is updated, because a flow may begin before Add. Remove undoes it.
  void Expect(const LearnedKey& key) { keys_->Insert(key); }
  // Records an element that the kernel has now. Returns the key that was dropped for it, if there
  // was no room.
  std::optional<LearnedKey> Add(const LearnedKey& key, Entry entry);
  void Remove(const LearnedKey& key);

  // Returns true also for expired entries: flows may outlive the element that allowed them.
  bool Has(const LearnedKey& key) const { return entries_.contains(key); }
  // Returns the name that opened the address, or an empty string.
  std::string NameOf(const IpAddress& address) const;

  const Entries& entries() const { return entries_; }
  // The keys of entries(), and the expected ones.
  std::shared_ptr<const LearnedKeys> keys() const { return keys_; }

 private:
  void Drop(const LearnedKey& key);

  Entries entries_;
  std::set<std::pair<int64_t, LearnedKey>> by_expiry_;
  std::shared_ptr<LearnedKeys> keys_ = std::make_shared<LearnedKeys>();
};

}  // namespace atl::netpolicy
