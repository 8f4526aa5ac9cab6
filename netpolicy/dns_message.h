// A strict parser of DNS messages (RFC 1035, EDNS of RFC 6891): enough to know who asks for what,
// whether an answer belongs to a question, and to make the few answers that we give ourselves.
// Both sides are hostile. Every offset is checked, names are limited to 255 bytes, compression
// pointers may only lead backwards, so that no message makes a loop.
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

enum class DnsRcode : uint8_t {
  kNoError = 0,
  kFormatError = 1,
  kServerFailure = 2,
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
                     // printable ASCII, and dots in labels, as \ddd
  uint16_t type;
  uint16_t klass;
  std::span<const uint8_t> wire;  // name, type and class in the message

  // The same question; letters in either case.
  bool Matches(const DnsQuestion& other) const;
};

struct DnsRecord {
  std::string name;
  uint16_t type;
  uint16_t klass;
  uint32_t ttl;
  std::span<const uint8_t> data;
};

inline constexpr uint16_t kDnsTypeA = 1;
inline constexpr uint16_t kDnsTypeAaaa = 28;
inline constexpr uint16_t kDnsTypeOpt = 41;
inline constexpr uint16_t kDnsTypeAxfr = 252;
inline constexpr uint16_t kDnsTypeIxfr = 251;
inline constexpr uint16_t kDnsClassIn = 1;

std::optional<DnsHeader> ParseDnsHeader(std::span<const uint8_t> message);

// What a client may ask: a standard query with one question, no records but one EDNS record, and
// nothing behind it.
struct DnsQuery {
  DnsHeader header;
  DnsQuestion question;
  bool edns = false;
  size_t udp_size = kDnsPlainUdpSize;  // the longest answer that it takes over UDP
};
struct DnsQueryResult {
  // kNoError: `query` holds it. Otherwise the answer that it deserves.
  DnsRcode rcode = DnsRcode::kNoError;
  DnsQuery query;
};
// Nothing: not even worth an answer (no header, or not a query).
std::optional<DnsQueryResult> ParseDnsQuery(std::span<const uint8_t> message);

// A whole response, every record within bounds; nothing if it is malformed.
struct DnsResponse {
  DnsHeader header;
  DnsQuestion question;
  std::vector<DnsRecord> records;  // all sections in order
};
std::optional<DnsResponse> ParseDnsResponse(std::span<const uint8_t> message);

// An answer without records. `query` is at least a header; its question is repeated if it parses.
std::vector<uint8_t> MakeDnsError(std::span<const uint8_t> query, DnsRcode rcode);
// "Ask again over TCP".
std::vector<uint8_t> MakeDnsTruncated(const DnsQuery& query, uint16_t response_flags);

void SetDnsId(std::span<uint8_t> message, uint16_t id);

}  // namespace atl::netpolicy
