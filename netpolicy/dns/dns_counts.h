// Counts the questions of all sandboxes by what became of them. No label is a sandbox's choice.
//
// Thread rule: a plain object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {

enum class DnsResult : uint8_t {
  kAnswered,  // the name's records, or that there are none
  kDenied,    // the gate hides the name, or does not learn its addresses
  kFailed,    // malformed, of a kind that is not served, or no upstream has answered
  kLimited,   // over a limit of the sandbox's, or of all
};
inline constexpr std::array<std::string_view, 4> kDnsResultNames = {"answered", "denied", "failed",
                                                                    "limited"};
inline constexpr std::array<std::string_view, 3> kDnsTypeNames = {"A", "AAAA", "other"};

class DnsCounts {
 public:
  // `type`: as on the wire; 0 for a question that was not read.
  void Add(DnsResult result, uint16_t type) {
    const size_t column = type == kDnsTypeA ? 0 : type == kDnsTypeAaaa ? 1 : 2;
    ++counts_[static_cast<size_t>(result)][column];
  }
  // `result` and `type`: indices of the names above.
  uint64_t at(size_t result, size_t type) const { return counts_[result][type]; }

 private:
  std::array<std::array<uint64_t, kDnsTypeNames.size()>, kDnsResultNames.size()> counts_{};
};

}  // namespace atl::netpolicy
