// Parses an upstream's answer and rebuilds it. Only the records that the question leads to are
// kept, so an upstream cannot pass records of its choice to a sandbox.
//
// The chain is followed strictly: from the question's name, alias by alias, to the name that holds
// the records. An address record for any other name makes the whole answer malformed. Other
// unrelated records are dropped. The SOA of the authority section is kept only in a negative
// answer, which carries no proof (NSEC).
//
// Thread rule: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "netpolicy/address/ip.h"
#include "netpolicy/dns/dns_lookup.h"
#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {

inline constexpr uint32_t kDnsMaxTtl = 3600;         // longer TTLs are cut to this
inline constexpr uint32_t kDnsMaxNegativeTtl = 300;  // RFC 2308 section 5 allows more
inline constexpr size_t kDnsMaxChain = 16;
// Most addresses of one answer; the rest is dropped, because each address becomes a set element of
// the rules.
inline constexpr size_t kDnsMaxAddresses = 256;

struct DnsAnswer {
  DnsRcode rcode = DnsRcode::kNoError;
  bool truncated = false;  // if set, no other member is valid
  bool authentic = false;  // the upstream has validated the signatures (AD)
  // The records in the form in which they follow the question in a message. Names in them may be
  // compressed to point into the question.
  uint16_t answers = 0, authorities = 0;
  std::vector<uint8_t> records;
  std::vector<uint16_t> ttls;  // offsets of the TTLs in `records`
  // The result of questions of type A and AAAA.
  // in the form of DnsQuestion::name; the last one has the addresses
  std::vector<std::string> aliases;
  std::vector<IpAddress> addresses;
  // Seconds for which the answer may be cached. 0: it is only for the queries that wait for it.
  uint32_t ttl = 0;

  size_t MemorySize() const;
};

// Parses `message`. Empty if it is malformed, or not an answer to `lookup`.
std::optional<DnsAnswer> ReadDnsAnswer(const DnsLookup& lookup, std::span<const uint8_t> message);

// Makes an answer with those of `addresses` that have the family of `type`, under the question's
// name.
DnsAnswer MakeDnsAnswer(uint16_t type, std::span<const IpAddress> addresses, uint32_t ttl);

// Makes the reply to `query`, `age` seconds after `answer` arrived. It has the id and the question
// of `query`, byte by byte, and the remaining TTLs, each at most `most_ttl`. `answer` must be an
// answer to LookupOf(query), or have no records.
std::vector<uint8_t> MakeDnsReply(const DnsQuery& query, const DnsAnswer& answer, uint32_t age = 0,
                                  uint32_t most_ttl = kDnsMaxTtl);

}  // namespace atl::netpolicy
