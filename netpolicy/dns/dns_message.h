// A strict parser of DNS messages (RFC 1035, EDNS of RFC 6891): enough to know who asks for what,
// and what an answer holds. Both sides are hostile. Every offset is checked, names are limited to
// 255 bytes, compression pointers may only lead backwards, so that no message makes a loop.
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
// Queries hold one question and a few EDNS options; anything longer is not one.
inline constexpr size_t kDnsMaxQuery = 1024;
// Of a response, far more than any has: 4,000 of them with long names took 40 ms of the loop.
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
  std::string name;  // lower case, dots between labels, "" is the root; bytes that are not
                     // printable ASCII, and dots in labels, as \ddd: two names never look the same
  uint16_t type;
  uint16_t klass;
  std::span<const uint8_t> wire;  // name, type and class in the message
};

struct DnsRecord {
  std::string name;  // as in DnsQuestion
  uint16_t type;
  uint16_t klass;
  uint32_t ttl;
  std::span<const uint8_t> data;
  size_t data_at;  // of `data` in the message: names in it may be compressed
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

// What a client may ask: a standard query with one question, no records but one EDNS record, and
// nothing behind it.
struct DnsQuery {
  DnsHeader header;
  DnsQuestion question;
  bool edns = false;
  bool dnssec_ok = false;              // wants signatures (RFC 3225)
  size_t udp_size = kDnsPlainUdpSize;  // the longest answer that it takes over UDP

  bool recursion_desired() const { return (header.flags & 0x0100) != 0; }
  bool checking_disabled() const { return (header.flags & 0x0010) != 0; }
};
struct DnsQueryResult {
  // kNoError: `query` holds it. Otherwise the answer that it deserves.
  DnsRcode rcode = DnsRcode::kNoError;
  DnsQuery query;
};
// Nothing: not even worth an answer (no header, or not a query).
std::optional<DnsQueryResult> ParseDnsQuery(std::span<const uint8_t> message);

// A whole response, every record within bounds; nothing if it is malformed or has too many.
struct DnsResponse {
  DnsHeader header;
  DnsQuestion question;
  std::vector<DnsRecord> records;  // all sections in order
};
std::optional<DnsResponse> ParseDnsResponse(std::span<const uint8_t> message);

// An answer without records, for what is no proper query. `query` is at least a header; its
// question is repeated if it parses.
std::vector<uint8_t> MakeDnsError(std::span<const uint8_t> query, DnsRcode rcode);

}  // namespace atl::netpolicy
