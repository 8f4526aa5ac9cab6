// An answer of an upstream, taken apart and written anew: of the message that came, only what the
// question led to is kept, so that no record of anybody's choice travels along.
//
// The chain is followed strictly: from the question's name, alias by alias, to the name that holds
// the records. An address for any other name makes the whole answer malformed; other records that
// do not belong are left out. Of the authority section the SOA stays, and only where there is
// nothing else: a negative answer carries no proof of it (NSEC).
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

inline constexpr uint32_t kDnsMaxTtl = 3600;         // longer ones are cut
inline constexpr uint32_t kDnsMaxNegativeTtl = 300;  // RFC 2308 section 5 allows more
inline constexpr size_t kDnsMaxChain = 16;
// More than that are left out: each goes into the rules.
inline constexpr size_t kDnsMaxAddresses = 256;

struct DnsAnswer {
  DnsRcode rcode = DnsRcode::kNoError;
  bool truncated = false;  // nothing else of it can be used
  bool authentic = false;  // the upstream has checked signatures
  // The records as they follow the question in a message: names in them may point to it.
  uint16_t answers = 0, authorities = 0;
  std::vector<uint8_t> records;
  std::vector<uint16_t> ttls;  // where they stand in `records`
  // What the records lead to, for questions of type A and AAAA.
  std::vector<std::string> aliases;  // as in DnsQuestion::name, the last one has the addresses
  std::vector<IpAddress> addresses;
  // Seconds that it may be kept; 0: only for those who wait for it.
  uint32_t ttl = 0;

  size_t MemorySize() const;
};

// Nothing: `message` is malformed, or no answer to `lookup`.
std::optional<DnsAnswer> ReadDnsAnswer(const DnsLookup& lookup, std::span<const uint8_t> message);

// Those of `addresses` that a question of `type` asks for, under its name.
DnsAnswer MakeDnsAnswer(uint16_t type, std::span<const IpAddress> addresses, uint32_t ttl);

// What `query` gets `age` seconds after the answer came: its own id and question, byte by byte, and
// the TTLs that remain, none above `most_ttl`. `answer` is one to LookupOf(query), or has no
// records.
std::vector<uint8_t> MakeDnsReply(const DnsQuery& query, const DnsAnswer& answer, uint32_t age = 0,
                                  uint32_t most_ttl = kDnsMaxTtl);

}  // namespace atl::netpolicy
