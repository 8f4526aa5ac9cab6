#include "runtime/sandbox/store/idempotency.h"

#include <algorithm>
#include <utility>

namespace atl::sandbox {
namespace {

// No key contains a line break, because it comes in a header. The host's keys stay as they are.
std::string OwnKey(const std::string& tenant, const std::string& key) {
  return tenant.empty() ? key : tenant + "\n" + key;
}

}  // namespace

void Idempotency::Load(std::vector<KeyRecord> records) {
  for (KeyRecord& record : records) Add(std::move(record));
}

const KeyRecord* Idempotency::Find(const std::string& tenant, const std::string& key) const {
  const auto found = by_key_.find(OwnKey(tenant, key));
  return found == by_key_.end() ? nullptr : &found->second;
}

Attempt* Idempotency::UnderWay(const std::string& tenant, const std::string& key) const {
  const auto found = under_way_.find(OwnKey(tenant, key));
  return found == under_way_.end() ? nullptr : found->second;
}

void Idempotency::Begin(const std::string& tenant, const std::string& key, Attempt* attempt,
                        int64_t now_ms) {
  ForgetOld(now_ms);
  under_way_[OwnKey(tenant, key)] = attempt;
}

void Idempotency::End(const std::string& tenant, const std::string& key) {
  under_way_.erase(OwnKey(tenant, key));
}

void Idempotency::Add(KeyRecord record) {
  const int64_t now_ms = record.made_ms;
  std::string key = OwnKey(record.tenant, record.key);
  by_age_[record.tenant].emplace_back(now_ms, key);
  ++aged_;
  by_key_.insert_or_assign(std::move(key), std::move(record));
  ForgetOld(now_ms);
}

void Idempotency::ForgetOld(int64_t now_ms) {
  for (auto& [tenant, ages] : by_age_) {
    while (!ages.empty() && ages.front().first < now_ms - kKeyLifeMs) ForgetOldest(ages);
  }
  while (aged_ > kMaxKeys) {
    ForgetOldest(std::max_element(by_age_.begin(), by_age_.end(), [](const auto& a, const auto& b) {
                   return a.second.size() < b.second.size();
                 })->second);
  }
  std::erase_if(by_age_, [](const auto& entry) { return entry.second.empty(); });
}

void Idempotency::ForgetOldest(Ages& ages) {
  const auto found = by_key_.find(ages.front().second);
  if (found != by_key_.end() && found->second.made_ms == ages.front().first) by_key_.erase(found);
  ages.pop_front();
  --aged_;
}

}  // namespace atl::sandbox
