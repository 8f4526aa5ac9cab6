// Feeds hostile bytes to the DNS parsers and checks the properties that the forwarder relies on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "netpolicy/dns/dns_answer.h"
#include "netpolicy/dns/dns_lookup.h"
#include "netpolicy/dns/dns_message.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {
namespace {

DnsLookup LookupOf(const DnsQuestion& question, bool dnssec_ok) {
  DnsQuery query{};
  query.question = question;
  query.dnssec_ok = dnssec_ok;
  return LookupOf(query);
}

void Query(std::span<const uint8_t> message) {
  const auto result = ParseDnsQuery(message);
  if (!result) return;
  const auto error = MakeDnsError(message, DnsRcode::kServerFailure);
  ATOLL_CHECK(error.size() >= kDnsHeaderSize && error.size() <= message.size());
  if (result->rcode != DnsRcode::kNoError) return;
  const DnsLookup lookup = LookupOf(result->query);
  DnsAnswer truncated;
  truncated.truncated = true;
  const auto bytes = MakeDnsReply(result->query, truncated);
  const auto reply = ParseDnsResponse(bytes);
  ATOLL_CHECK(reply && reply->header.truncated() && IsAnswerTo(*reply, lookup));
  // The query that leaves the host asks the same question and holds nothing else.
  const auto query = MakeDnsQuery(lookup, 1, true);
  const auto again = ParseDnsQuery(query);
  ATOLL_CHECK(again && again->rcode == DnsRcode::kNoError && LookupOf(again->query) == lookup);
  ATOLL_CHECK(query.size() == kDnsHeaderSize + lookup.name.size() + 4 + 11);
}

void Response(std::span<const uint8_t> message) {
  const auto response = ParseDnsResponse(message);
  if (!response) return;
  for (const DnsRecord& record : response->records) {
    ATOLL_CHECK(record.data.size() <= message.size() &&
                record.data_at <= message.size() - record.data.size() &&
                record.data.data() == message.data() + record.data_at);
    ATOLL_CHECK(record.name.size() <= 4 * 255);
  }
}

// Returns true if the record's name is one that a rebuilt answer may have records for.
bool InChain(const DnsRecord& record, const DnsQuestion& question, const DnsAnswer& answer) {
  return record.name == question.name || std::find(answer.aliases.begin(), answer.aliases.end(),
                                                   record.name) != answer.aliases.end();
}

void Rebuilt(std::span<const uint8_t> message, bool dnssec_ok) {
  const auto response = ParseDnsResponse(message);
  if (!response || response->question.klass != kDnsClassIn) return;
  const DnsLookup lookup = LookupOf(response->question, dnssec_ok);
  const auto answer = ReadDnsAnswer(lookup, message);
  if (!answer) return;
  const auto bytes = MakeDnsQuery(lookup, 7, true);
  const auto query = ParseDnsQuery(bytes);
  if (query->rcode != DnsRcode::kNoError) return;
  const auto reply = MakeDnsReply(query->query, *answer, 1);
  ATOLL_CHECK(reply.size() <= kDnsMaxMessage);
  const auto parsed = ParseDnsResponse(reply);
  ATOLL_CHECK(parsed && parsed->header.answers == answer->answers &&
              parsed->header.authorities == answer->authorities);
  ATOLL_CHECK(answer->authorities <= 1 && parsed->header.additionals == 1);
  size_t addresses = 0;
  for (size_t i = 0; i < answer->answers; ++i) {
    const DnsRecord& record = parsed->records[i];
    ATOLL_CHECK(InChain(record, parsed->question, *answer));
    ATOLL_CHECK(record.type == lookup.type || record.type == kDnsTypeCname ||
                (dnssec_ok && record.type == kDnsTypeRrsig));
    ATOLL_CHECK(record.ttl <= kDnsMaxTtl);
    if (record.type == kDnsTypeA || record.type == kDnsTypeAaaa) ++addresses;
  }
  ATOLL_CHECK(addresses == answer->addresses.size());
  // A rebuilt answer stays the same when it is rebuilt again.
  const auto again = ReadDnsAnswer(lookup, reply);
  ATOLL_CHECK(answer->truncated ||
              (again && again->records.size() == answer->records.size() &&
               again->addresses == answer->addresses && again->aliases == answer->aliases));
}

}  // namespace
}  // namespace atl::netpolicy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl::netpolicy;  // NOLINT(google-build-using-namespace): one function
  const std::span<const uint8_t> message(data, size);
  Query(message);
  Response(message);
  Rebuilt(message, false);
  Rebuilt(message, true);
  return 0;
}
