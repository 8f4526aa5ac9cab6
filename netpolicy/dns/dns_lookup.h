// The part of a question that determines its answer, without anything about the asker. Equal
// lookups have the same answer.
//
// Thread rule: values and pure functions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {

struct DnsLookup {
  std::string name;  // wire form, lower case
  uint16_t type = 0;
  bool dnssec_ok = false;
  bool checking_disabled = false;

  auto operator<=>(const DnsLookup&) const = default;
};

DnsLookup LookupOf(const DnsQuery& query);
// Makes a lookup of `name`: printable ASCII, labels separated by dots. Empty if it is not a valid
// name.
std::optional<DnsLookup> LookupOf(std::string_view name, uint16_t type);

// Returns true if the question that `response` repeats is this lookup.
bool IsAnswerTo(const DnsResponse& response, const DnsLookup& lookup);

size_t DnsLabelCount(std::string_view wire_name);

// Makes the message that leaves the host. No byte of it comes from the client except the letters of
// the name, in lower case, so a client cannot pass other data to a name server. `edns`: adds our
// own EDNS record.
std::vector<uint8_t> MakeDnsQuery(const DnsLookup& lookup, uint16_t id, bool edns);

}  // namespace atl::netpolicy
