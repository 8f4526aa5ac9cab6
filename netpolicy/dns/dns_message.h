// A strict parser of DNS messages (RFC 1035, EDNS of RFC 6891): enough to know what is asked and
// what an answer holds. Input from both sides is hostile. Every offset is checked, names are
// limited to 255 bytes, and compression pointers must point backwards, so no message causes a loop.
//
// Thread rule: pure functions on borrowed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace atl::netpolicy {

inline constexpr size_t kDnsHeaderSize = 12;
inline constexpr size_t kDnsMaxMessage = 65535;
inline constexpr size_t kDnsPlainUdpSize = 512;
// Longest query. One question and a few EDNS options fit; anything longer is not a query.
inline constexpr size_t kDnsMaxQuery = 1024;
// Most records of a response, far more than real ones have. 4,000 records with long names took 40
// ms on the loop.
inline constexpr size_t kDnsMaxRecords = 512;

enum class DnsRcode : uint8_t {
  kNoError = 0,
  kFormatError = 1,
  kServerFailure = 2,
  kNxDomain = 3,
  kNotImplemented = 4,
  kRefused = 5,
};

struct DnsHeader {
  uint16_t id;
  uint16_t flags;
  uint16_t questions, answers, authorities, additionals;

  bool response() const { return (flags & 0x8000) != 0; }
  uint8_t opcode() const { return static_cast<uint8_t>(flags >> 11 & 0xf); }
  bool truncated() const { return (flags & 0x0200) != 0; }
  uint8_t rcode() const { return static_cast<uint8_t>(flags & 0xf); }
};

struct DnsQuestion {
  // lower case, labels separated by dots; "" is the root. Bytes that are not printable ASCII, and
  // dots within labels, are written as \ddd, so that two different names never look the same.
  std::string name;
  uint16_t type;
  uint16_t klass;
  std::span<const uint8_t> wire;  // name, type and class in the message
};

struct DnsRecord {
  std::string name;  // same form as DnsQuestion::name
  uint16_t type;
  uint16_t klass;
  uint32_t ttl;
  std::span<const uint8_t> data;
  size_t data_at;  // offset of `data` in the message, needed because names in it may be compressed
};

inline constexpr uint16_t kDnsTypeA = 1;
inline constexpr uint16_t kDnsTypeNs = 2;
inline constexpr uint16_t kDnsTypeCname = 5;
inline constexpr uint16_t kDnsTypeSoa = 6;
inline constexpr uint16_t kDnsTypePtr = 12;
inline constexpr uint16_t kDnsTypeMx = 15;
inline constexpr uint16_t kDnsTypeTxt = 16;
inline constexpr uint16_t kDnsTypeAaaa = 28;
inline constexpr uint16_t kDnsTypeSrv = 33;
inline constexpr uint16_t kDnsTypeNaptr = 35;
inline constexpr uint16_t kDnsTypeOpt = 41;
inline constexpr uint16_t kDnsTypeDs = 43;
inline constexpr uint16_t kDnsTypeRrsig = 46;
inline constexpr uint16_t kDnsTypeDnskey = 48;
inline constexpr uint16_t kDnsTypeSvcb = 64;
inline constexpr uint16_t kDnsTypeHttps = 65;
inline constexpr uint16_t kDnsTypeIxfr = 251;
inline constexpr uint16_t kDnsTypeAxfr = 252;
inline constexpr uint16_t kDnsTypeCaa = 257;
inline constexpr uint16_t kDnsClassIn = 1;

std::optional<DnsHeader> ParseDnsHeader(std::span<const uint8_t> message);

// A query as clients may send it: a standard query with one question, no records except one EDNS
// record, and nothing after it.
struct DnsQuery {
  DnsHeader header;
  DnsQuestion question;
  bool edns = false;
  bool dnssec_ok = false;              // the client wants signatures (RFC 3225)
  size_t udp_size = kDnsPlainUdpSize;  // longest answer that the client takes over UDP

  bool recursion_desired() const { return (header.flags & 0x0100) != 0; }
  bool checking_disabled() const { return (header.flags & 0x0010) != 0; }
};
struct DnsQueryResult {
  // kNoError: `query` is valid. Otherwise: the error to answer with.
  DnsRcode rcode = DnsRcode::kNoError;
  DnsQuery query;
};
// Parses a query. Empty if it must not even be answered, because it has no header or is not a
// query.
std::optional<DnsQueryResult> ParseDnsQuery(std::span<const uint8_t> message);

// A complete response, with every record within bounds.
struct DnsResponse {
  DnsHeader header;
  DnsQuestion question;
  std::vector<DnsRecord> records;  // records of all sections, in order
};
std::optional<DnsResponse> ParseDnsResponse(std::span<const uint8_t> message);

// Makes an answer without records to an invalid query. `query` holds at least a header. Its
// question is repeated if it can be parsed.
std::vector<uint8_t> MakeDnsError(std::span<const uint8_t> query, DnsRcode rcode);

}  // namespace atl::netpolicy
