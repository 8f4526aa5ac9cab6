// Hides from a tenant where its lines stand in the chain. Numbers that count the lines of all
// tenants would tell how busy the others are, so it gets numbers that only the daemon can turn
// back: a line keeps its number, and the order of numbers means nothing.
//
// The hashes go, too: whoever knows a line but for its number could find it by trying.
//
// Thread rule: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace atl::audit {

class HiddenPlace {
 public:
  // Numbers are below 2^52, which JSON's readers keep exact.
  static constexpr int kBits = 52;

  // `key` is secret, and another one for each tenant.
  explicit HiddenPlace(std::string key) : key_(std::move(key)) {}

  // One-to-one. 0, the place before the first line, stays 0.
  uint64_t Hide(uint64_t seq) const;
  // Returns the seq again. For what Hide has not made it is most likely the number of no line.
  uint64_t Find(uint64_t hidden) const;
  // Returns the line with its hidden number and without hashes; empty if it is no line.
  std::string LineOf(std::string_view line) const;

 private:
  uint64_t Mix(int round, uint64_t half) const;

  const std::string key_;
};

}  // namespace atl::audit
