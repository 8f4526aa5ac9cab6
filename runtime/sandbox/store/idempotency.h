// Finds repeated requests by the Idempotency-Key that the client chose. If a client repeats a
// request because it did not see the answer, it gets the result of the first request. A key belongs
// to one tenant and one request, whatever the request asks for. While the request is in flight, its
// attempt holds the key (attempt.h). Once the request is carried out, a record in the sandboxes'
// store keeps the key (store.h), so it survives a restart.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace atl::sandbox {

class Attempt;

// A key expires after a day. If there are more than kMaxKeys, the oldest of the tenant that has
// most are forgotten: so no tenant can make the daemon forget the keys of another.
inline constexpr int64_t kKeyLifeMs = 24 * 3600 * 1000LL;
inline constexpr size_t kMaxKeys = 65536;

struct KeyRecord {
  std::string tenant;
  std::string key;
  std::string fingerprint;             // fingerprint of the request
  std::vector<std::string> sandboxes;  // the sandboxes that the request made or replaced
  int64_t made_ms = 0;
};

class Idempotency {
 public:
  // `records`: oldest first.
  void Load(std::vector<KeyRecord> records);
  // Returns the record of a request that was carried out; null for an unknown key. Valid until the
  // next call.
  const KeyRecord* Find(const std::string& tenant, const std::string& key) const;
  void Add(KeyRecord record);

  // Returns the attempt that holds the key, between Begin and End; null if no attempt holds it.
  Attempt* UnderWay(const std::string& tenant, const std::string& key) const;
  // Registers a key's attempt. Also forgets old records.
  void Begin(const std::string& tenant, const std::string& key, Attempt* attempt, int64_t now_ms);
  void End(const std::string& tenant, const std::string& key);

  size_t size() const { return by_key_.size(); }

 private:
  using Ages = std::deque<std::pair<int64_t, std::string>>;

  void ForgetOld(int64_t now_ms);
  void ForgetOldest(Ages& ages);

  // Both are keyed by tenant and key (OwnKey).
  std::unordered_map<std::string, Attempt*> under_way_;
  std::unordered_map<std::string, KeyRecord> by_key_;
  // Keyed by tenant, oldest first. A key that was added again has several entries.
  std::map<std::string, Ages> by_age_;
  size_t aged_ = 0;  // entries of by_age_
};

}  // namespace atl::sandbox
