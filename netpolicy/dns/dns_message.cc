#include "netpolicy/dns/dns_message.h"

#include <algorithm>

#include "netpolicy/dns/dns_wire.h"

namespace atl::netpolicy {
namespace {

DnsRcode ReadQuery(DnsReader& reader, DnsQuery& query) {
  const DnsHeader& header = query.header;
  if (header.opcode() != 0) return DnsRcode::kNotImplemented;
  if (header.questions != 1 || header.answers != 0 || header.authorities != 0 ||
      header.additionals > 1) {
    return DnsRcode::kFormatError;
  }
  if (!reader.Question(query.question)) return DnsRcode::kFormatError;
  if (header.additionals == 1) {
    DnsRecord record;
    // An OPT record is the only one that a query may carry. Its class holds the size that the
    // client accepts.
    if (!reader.Record(record) || record.type != kDnsTypeOpt || !record.name.empty()) {
      return DnsRcode::kFormatError;
    }
    query.edns = true;
    query.dnssec_ok = (record.ttl & 0x8000) != 0;
    query.udp_size = std::max<size_t>(record.klass, kDnsPlainUdpSize);
  }
  if (!reader.AtEnd()) return DnsRcode::kFormatError;
  const uint16_t type = query.question.type;
  if (query.question.klass != kDnsClassIn || type == kDnsTypeAxfr || type == kDnsTypeIxfr) {
    return DnsRcode::kRefused;
  }
  return DnsRcode::kNoError;
}

}  // namespace

std::optional<DnsHeader> ParseDnsHeader(std::span<const uint8_t> message) {
  DnsReader reader(message);
  DnsHeader header{};
  if (!reader.Header(header)) return std::nullopt;
  return header;
}

std::optional<DnsQueryResult> ParseDnsQuery(std::span<const uint8_t> message) {
  DnsReader reader(message);
  DnsQueryResult result{};
  result.query.udp_size = kDnsPlainUdpSize;
  if (!reader.Header(result.query.header)) return std::nullopt;
  // Responses are not answered: two servers could answer each other for ever.
  if (result.query.header.response()) return std::nullopt;
  result.rcode = ReadQuery(reader, result.query);
  return result;
}

std::optional<DnsResponse> ParseDnsResponse(std::span<const uint8_t> message) {
  DnsReader reader(message);
  DnsResponse response{};
  if (!reader.Header(response.header)) return std::nullopt;
  const DnsHeader& header = response.header;
  if (!header.response() || header.opcode() != 0 || header.questions != 1) return std::nullopt;
  if (!reader.Question(response.question)) return std::nullopt;
  const size_t count = size_t{header.answers} + header.authorities + header.additionals;
  if (count > kDnsMaxRecords) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    DnsRecord record;
    if (!reader.Record(record)) {
      // A truncated answer may end within a record. RFC 2181 section 9 says not to use its records,
      // and they are not read.
      if (header.truncated()) return response;
      return std::nullopt;
    }
    response.records.push_back(std::move(record));
  }
  if (!reader.AtEnd()) return std::nullopt;
  return response;
}

std::vector<uint8_t> MakeDnsError(std::span<const uint8_t> query, DnsRcode rcode) {
  DnsReader reader(query);
  DnsHeader header{};
  std::vector<uint8_t> answer;
  if (!reader.Header(header)) return answer;
  DnsQuestion question;
  const bool repeat = header.questions == 1 && reader.Question(question);
  const unsigned flags = kDnsFlagResponse | kDnsFlagRecursionAvailable |
                         (header.flags & (kDnsOpcodeMask | kDnsFlagRecursionDesired)) |
                         static_cast<unsigned>(rcode);
  PutDnsHeader(answer, {.id = header.id,
                        .flags = static_cast<uint16_t>(flags),
                        .questions = static_cast<uint16_t>(repeat ? 1 : 0),
                        .answers = 0,
                        .authorities = 0,
                        .additionals = 0});
  if (repeat) answer.insert(answer.end(), question.wire.begin(), question.wire.end());
  return answer;
}

}  // namespace atl::netpolicy
