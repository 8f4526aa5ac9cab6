// Which requests to create have been made already, by the Idempotency-Key that their client gave
// them: a client that repeats a request because it did not see the answer gets the same sandbox.
// The keys are kept with the records (store.h), so that they survive a restart too.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/result.h"

namespace atl::sandbox {

// Keys are forgotten after a day, and the oldest of more than these.
inline constexpr int64_t kKeyLifeMs = 24 * 3600 * 1000LL;
inline constexpr size_t kMaxKeys = 65536;

struct KeyRecord {
  std::string key;
  std::string fingerprint;  // of the request's body
  std::string sandbox_id;
  int64_t made_ms = 0;
};

// kAlreadyExists: what a key is answered with that came with another request before.
Error OtherRequest(const std::string& key);

class Idempotency {
 public:
  // Oldest first.
  void Load(std::vector<KeyRecord> records);
  // Null: not known. Valid until the next call.
  const KeyRecord* Find(const std::string& key) const;
  // Forgets old ones for it.
  void Add(KeyRecord record);
  // Nothing came of it: the request may be made again.
  void Remove(const std::string& key);
  size_t size() const { return by_key_.size(); }

 private:
  std::unordered_map<std::string, KeyRecord> by_key_;
  // Oldest first; keys that were removed, or removed and added again, are in it too.
  std::deque<std::pair<int64_t, std::string>> by_age_;
};

}  // namespace atl::sandbox
