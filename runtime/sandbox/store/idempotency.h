// Which requests have been made already, by the Idempotency-Key that their client gave them: a
// client that repeats a request because it did not see the answer gets what came of the first one.
// A key is that of one request, whatever it asks for. While the request is under way its attempt
// has the key (attempt.h); once it is carried out, a record keeps it with those of the sandboxes
// (store.h), so that it survives a restart too.
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

class Attempt;

// Keys are forgotten after a day, and the oldest of more than these.
inline constexpr int64_t kKeyLifeMs = 24 * 3600 * 1000LL;
inline constexpr size_t kMaxKeys = 65536;

struct KeyRecord {
  std::string key;
  std::string fingerprint;             // of the request
  std::vector<std::string> sandboxes;  // that it has made, or made anew
  int64_t made_ms = 0;
};

class Idempotency {
 public:
  // Oldest first.
  void Load(std::vector<KeyRecord> records);
  // Of a request that was carried out. Null: not known. Valid until the next call.
  const KeyRecord* Find(const std::string& key) const;
  void Add(KeyRecord record);

  // The attempt whose key it is, between Begin and End; null: none has it.
  Attempt* UnderWay(const std::string& key) const;
  // Forgets old records, too.
  void Begin(const std::string& key, Attempt* attempt, int64_t now_ms);
  void End(const std::string& key) { under_way_.erase(key); }

  size_t size() const { return by_key_.size(); }

 private:
  void ForgetOld(int64_t now_ms);

  std::unordered_map<std::string, Attempt*> under_way_;
  std::unordered_map<std::string, KeyRecord> by_key_;
  // Oldest first; keys that were added again are in it more than once.
  std::deque<std::pair<int64_t, std::string>> by_age_;
};

}  // namespace atl::sandbox
