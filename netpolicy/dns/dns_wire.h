// The bytes of DNS messages (RFC 1035 section 4): what the parser and the builders of messages read
// and write with. Internal to dns_*.cc.
//
// Thread rule: on borrowed bytes, no shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {

inline constexpr size_t kDnsMaxName = 255;  // on the wire, with lengths and the root
inline constexpr size_t kDnsOptSize = 11;   // an EDNS record without options

inline constexpr unsigned kDnsFlagResponse = 0x8000;
inline constexpr unsigned kDnsFlagTruncated = 0x0200;
inline constexpr unsigned kDnsFlagRecursionDesired = 0x0100;
inline constexpr unsigned kDnsFlagRecursionAvailable = 0x0080;
inline constexpr unsigned kDnsFlagAuthentic = 0x0020;
inline constexpr unsigned kDnsFlagCheckingDisabled = 0x0010;
inline constexpr unsigned kDnsOpcodeMask = 0x7800;

inline uint8_t DnsLower(uint8_t byte) {
  return static_cast<uint8_t>(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
}

// Walks over a message; false means that it ended too early or is malformed.
class DnsReader {
 public:
  explicit DnsReader(std::span<const uint8_t> message, size_t position = 0)
      : message_(message), position_(position) {}

  size_t position() const { return position_; }
  bool AtEnd() const { return position_ == message_.size(); }
  std::span<const uint8_t> Slice(size_t begin) const {
    return message_.subspan(begin, position_ - begin);
  }

  bool U16(uint16_t& value);
  bool U32(uint32_t& value);
  bool Bytes(size_t size, std::span<const uint8_t>& bytes);
  bool Header(DnsHeader& header);
  // `compressed`: pointers are allowed. The position afterwards is behind the name where it began.
  // `text` as in DnsQuestion::name; `wire`, if asked for: uncompressed, letters as they are.
  bool Name(bool compressed, std::string& text, std::string* wire = nullptr);
  bool Question(DnsQuestion& question);
  bool Record(DnsRecord& record);

 private:
  std::span<const uint8_t> message_;
  size_t position_ = 0;
};

void PutDnsU16(std::vector<uint8_t>& bytes, unsigned value);
void PutDnsU32(std::vector<uint8_t>& bytes, uint32_t value);
void PutDnsHeader(std::vector<uint8_t>& bytes, const DnsHeader& header);
// Ours: takes answers of 1,232 bytes (dnsflagday.net: passes everywhere unfragmented), no options.
void PutDnsOpt(std::vector<uint8_t>& bytes, bool dnssec_ok);

}  // namespace atl::netpolicy
