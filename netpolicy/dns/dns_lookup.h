// What is asked of the network: the parts of a question that make a difference to its answer, and
// nothing of who asks. Two lookups that are equal have one answer.
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
  std::string name;  // as on the wire, lower case
  uint16_t type = 0;
  bool dnssec_ok = false;
  bool checking_disabled = false;

  auto operator<=>(const DnsLookup&) const = default;
};

DnsLookup LookupOf(const DnsQuery& query);
// `name`: printable ASCII, labels with dots between them. Nothing: it is no name.
std::optional<DnsLookup> LookupOf(std::string_view name, uint16_t type);

// The question that `response` repeats is this one.
bool IsAnswerTo(const DnsResponse& response, const DnsLookup& lookup);

size_t DnsLabelCount(std::string_view wire_name);

// The message that leaves the host. All of it is ours, so that a client's bytes cannot carry
// anything to a name server but the letters of the name, and those in lower case. `edns`: with our
// own EDNS record.
std::vector<uint8_t> MakeDnsQuery(const DnsLookup& lookup, uint16_t id, bool edns);

}  // namespace atl::netpolicy
