#include "netpolicy/dns/dns_lookup.h"

#include <algorithm>

#include "netpolicy/dns/dns_wire.h"

namespace atl::netpolicy {

DnsLookup LookupOf(const DnsQuery& query) {
  DnsLookup lookup;
  const auto wire = query.question.wire.first(query.question.wire.size() - 4);
  lookup.name.resize(wire.size());
  // Length bytes are at most 63 and therefore no letters, so lowering the wire form changes only
  // the names.
  std::transform(wire.begin(), wire.end(), lookup.name.begin(),
                 [](uint8_t byte) { return static_cast<char>(DnsLower(byte)); });
  lookup.type = query.question.type;
  lookup.dnssec_ok = query.dnssec_ok;
  lookup.checking_disabled = query.checking_disabled();
  return lookup;
}

std::optional<DnsLookup> LookupOf(std::string_view name, uint16_t type) {
  DnsLookup lookup;
  lookup.type = type;
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    if (dot == 0 || dot > 63) return std::nullopt;
    lookup.name += static_cast<char>(dot);
    for (const char c : name.substr(0, dot)) {
      if (c <= ' ' || c >= 0x7f || c == '\\') return std::nullopt;
      lookup.name += static_cast<char>(DnsLower(static_cast<uint8_t>(c)));
    }
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  if (lookup.name.empty() || lookup.name.size() >= kDnsMaxName) return std::nullopt;
  lookup.name += '\0';
  return lookup;
}

size_t DnsLabelCount(std::string_view wire_name) {
  size_t count = 0;
  for (size_t at = 0; wire_name[at] != 0; at += static_cast<uint8_t>(wire_name[at]) + size_t{1}) {
    ++count;
  }
  return count;
}

bool IsAnswerTo(const DnsResponse& response, const DnsLookup& lookup) {
  const auto wire = response.question.wire;
  return response.question.type == lookup.type && response.question.klass == kDnsClassIn &&
         wire.size() == lookup.name.size() + 4 &&
         std::equal(lookup.name.begin(), lookup.name.end(), wire.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == DnsLower(b); });
}

std::vector<uint8_t> MakeDnsQuery(const DnsLookup& lookup, uint16_t id, bool edns) {
  std::vector<uint8_t> query;
  query.reserve(kDnsHeaderSize + lookup.name.size() + 4 + kDnsOptSize);
  const unsigned flags =
      kDnsFlagRecursionDesired | (lookup.checking_disabled ? kDnsFlagCheckingDisabled : 0);
  PutDnsHeader(query, {.id = id,
                       .flags = static_cast<uint16_t>(flags),
                       .questions = 1,
                       .answers = 0,
                       .authorities = 0,
                       .additionals = static_cast<uint16_t>(edns ? 1 : 0)});
  query.insert(query.end(), lookup.name.begin(), lookup.name.end());
  PutDnsU16(query, lookup.type);
  PutDnsU16(query, kDnsClassIn);
  if (edns) PutDnsOpt(query, lookup.dnssec_ok);
  return query;
}

}  // namespace atl::netpolicy
