#include "netpolicy/dns/dns_wire.h"

namespace atl::netpolicy {
namespace {

constexpr unsigned kUdpSize = 1232;
// Limit of compression pointers in one name. A name has at most that many labels, so no writer
// needs more pointers. Without the limit, a chain of pointers to pointers would make the name of
// every record cost thousands of steps.
constexpr size_t kMaxJumps = 127;
constexpr unsigned kOptDnssecOk = 0x8000;  // RFC 3225

void AppendLabel(std::string& name, std::span<const uint8_t> label) {
  if (!name.empty()) name += '.';
  for (const uint8_t byte : label) {
    const bool plain = byte > ' ' && byte < 0x7f && byte != '.' && byte != '\\';
    if (plain) {
      name += static_cast<char>(DnsLower(byte));
    } else {
      const auto digit = [](int value) { return static_cast<char>('0' + value % 10); };
      const char escaped[] = {'\\', digit(byte / 100), digit(byte / 10), digit(byte)};
      name.append(escaped, sizeof escaped);
    }
  }
}

}  // namespace

bool DnsReader::U16(uint16_t& value) {
  if (message_.size() - position_ < 2) return false;
  value = static_cast<uint16_t>(message_[position_] << 8 | message_[position_ + 1]);
  position_ += 2;
  return true;
}

bool DnsReader::U32(uint32_t& value) {
  uint16_t high = 0, low = 0;
  if (!U16(high) || !U16(low)) return false;
  value = static_cast<uint32_t>(high) << 16 | low;
  return true;
}

bool DnsReader::Bytes(size_t size, std::span<const uint8_t>& bytes) {
  if (message_.size() - position_ < size) return false;
  bytes = message_.subspan(position_, size);
  position_ += size;
  return true;
}

bool DnsReader::Header(DnsHeader& header) {
  return U16(header.id) && U16(header.flags) && U16(header.questions) && U16(header.answers) &&
         U16(header.authorities) && U16(header.additionals);
}

bool DnsReader::Name(bool compressed, std::string& text, std::string* wire) {
  text.clear();
  if (wire) wire->clear();
  size_t at = position_;
  size_t size = 1;  // 1 for the root
  // A pointer must lead before everything that was read of this name so far. Each jump lowers this
  // bound.
  size_t lowest = position_;
  size_t jumps = 0;
  for (;;) {
    if (at >= message_.size()) return false;
    const uint8_t length = message_[at];
    if ((length & 0xc0) == 0xc0) {
      if (!compressed || at + 1 >= message_.size()) return false;
      const size_t target = static_cast<size_t>(length & 0x3f) << 8 | message_[at + 1];
      if (target >= lowest || target < kDnsHeaderSize) return false;
      if (jumps == 0) position_ = at + 2;
      if (++jumps > kMaxJumps) return false;
      lowest = at = target;
      continue;
    }
    if (length > 63) return false;  // label types 01 and 10 were never standardised
    if (length == 0) break;
    size += size_t{length} + 1;
    if (size > kDnsMaxName || message_.size() - at - 1 < length) return false;
    const auto label = message_.subspan(at, size_t{length} + 1);
    AppendLabel(text, label.subspan(1));
    if (wire) wire->append(label.begin(), label.end());
    at += label.size();
  }
  if (wire) wire->push_back('\0');
  if (jumps == 0) position_ = at + 1;
  return true;
}

bool DnsReader::Question(DnsQuestion& question) {
  const size_t begin = position_;
  if (!Name(false, question.name) || !U16(question.type) || !U16(question.klass)) return false;
  question.wire = Slice(begin);
  return true;
}

bool DnsReader::Record(DnsRecord& record) {
  uint16_t size = 0;
  if (!Name(true, record.name) || !U16(record.type) || !U16(record.klass) || !U32(record.ttl) ||
      !U16(size)) {
    return false;
  }
  record.data_at = position_;
  return Bytes(size, record.data);
}

void PutDnsU16(std::vector<uint8_t>& bytes, unsigned value) {
  bytes.push_back(static_cast<uint8_t>(value >> 8 & 0xff));
  bytes.push_back(static_cast<uint8_t>(value & 0xff));
}

void PutDnsU32(std::vector<uint8_t>& bytes, uint32_t value) {
  PutDnsU16(bytes, value >> 16);
  PutDnsU16(bytes, value & 0xffff);
}

void PutDnsHeader(std::vector<uint8_t>& bytes, const DnsHeader& header) {
  PutDnsU16(bytes, header.id);
  PutDnsU16(bytes, header.flags);
  PutDnsU16(bytes, header.questions);
  PutDnsU16(bytes, header.answers);
  PutDnsU16(bytes, header.authorities);
  PutDnsU16(bytes, header.additionals);
}

void PutDnsOpt(std::vector<uint8_t>& bytes, bool dnssec_ok) {
  bytes.push_back(0);  // the root as the name
  PutDnsU16(bytes, kDnsTypeOpt);
  PutDnsU16(bytes, kUdpSize);
  PutDnsU16(bytes, 0);
  PutDnsU16(bytes, dnssec_ok ? kOptDnssecOk : 0);
  PutDnsU16(bytes, 0);
}

}  // namespace atl::netpolicy
