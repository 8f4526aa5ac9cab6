// Reads and writes the elements of DNS messages (RFC 1035 section 4). Internal to dns_*.cc.
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

inline constexpr size_t kDnsMaxName = 255;  // bytes on the wire, with the length bytes and the root
inline constexpr size_t kDnsOptSize = 11;   // size of an EDNS record without options

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

// A cursor over a message. Every function returns false if the message ends too early or is
// malformed.
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
  // Reads a name. `compressed`: pointers are allowed. Afterwards the position is after the name as
  // it appeared here. `text` has the form of DnsQuestion::name. `wire`, unless null, gets the
  // uncompressed form with its original letters.
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
// Appends our EDNS record: it accepts answers of 1,232 bytes, which pass unfragmented everywhere
// (dnsflagday.net), and has no options.
void PutDnsOpt(std::vector<uint8_t>& bytes, bool dnssec_ok);

}  // namespace atl::netpolicy
