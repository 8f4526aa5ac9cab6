#include "netpolicy/dns_message.h"

#include <algorithm>
#include <cstdio>

namespace atl::netpolicy {
namespace {

constexpr size_t kMaxNameSize = 255;  // on the wire, with lengths and the root
constexpr uint16_t kFlagResponse = 0x8000;
constexpr uint16_t kFlagTruncated = 0x0200;
constexpr uint16_t kFlagRecursionDesired = 0x0100;
constexpr uint16_t kFlagRecursionAvailable = 0x0080;
constexpr uint16_t kFlagAuthentic = 0x0020;
constexpr uint16_t kOpcodeMask = 0x7800;

void PutU16(std::vector<uint8_t>& bytes, unsigned value) {
  bytes.push_back(static_cast<uint8_t>(value >> 8 & 0xff));
  bytes.push_back(static_cast<uint8_t>(value & 0xff));
}

void AppendLabel(std::string& name, std::span<const uint8_t> label) {
  if (!name.empty()) name += '.';
  for (const uint8_t byte : label) {
    const bool plain = byte > ' ' && byte < 0x7f && byte != '.' && byte != '\\';
    if (plain) {
      name += static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\%03u", byte);
      name += escaped;
    }
  }
}

// Walks over a message; false means that it ended too early or is malformed.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> message) : message_(message) {}

  size_t position() const { return position_; }
  bool AtEnd() const { return position_ == message_.size(); }
  std::span<const uint8_t> Slice(size_t begin) const {
    return message_.subspan(begin, position_ - begin);
  }

  bool U16(uint16_t& value) {
    if (message_.size() - position_ < 2) return false;
    value = static_cast<uint16_t>(message_[position_] << 8 | message_[position_ + 1]);
    position_ += 2;
    return true;
  }
  bool U32(uint32_t& value) {
    uint16_t high = 0, low = 0;
    if (!U16(high) || !U16(low)) return false;
    value = static_cast<uint32_t>(high) << 16 | low;
    return true;
  }
  bool Bytes(size_t size, std::span<const uint8_t>& bytes) {
    if (message_.size() - position_ < size) return false;
    bytes = message_.subspan(position_, size);
    position_ += size;
    return true;
  }

  // `compressed`: pointers are allowed. The position afterwards is behind the name where it began.
  bool Name(bool compressed, std::string& name) {
    name.clear();
    size_t at = position_;
    size_t size = 1;  // the root
    // A pointer must lead before everything read so far of this name: each jump shrinks it.
    size_t lowest = position_;
    bool jumped = false;
    for (;;) {
      if (at >= message_.size()) return false;
      const uint8_t length = message_[at];
      if ((length & 0xc0) == 0xc0) {
        if (!compressed || at + 1 >= message_.size()) return false;
        const size_t target = static_cast<size_t>(length & 0x3f) << 8 | message_[at + 1];
        if (target >= lowest || target < kDnsHeaderSize) return false;
        if (!jumped) position_ = at + 2;
        jumped = true;
        lowest = at = target;
        continue;
      }
      if (length > 63) return false;  // 01 and 10 were never standardised
      if (length == 0) break;
      size += size_t{length} + 1;
      if (size > kMaxNameSize || message_.size() - at - 1 < length) return false;
      AppendLabel(name, message_.subspan(at + 1, length));
      at += size_t{length} + 1;
    }
    if (!jumped) position_ = at + 1;
    return true;
  }

  bool Question(DnsQuestion& question) {
    const size_t begin = position_;
    if (!Name(false, question.name) || !U16(question.type) || !U16(question.klass)) return false;
    question.wire = Slice(begin);
    return true;
  }

  bool Record(DnsRecord& record) {
    uint16_t size = 0;
    return Name(true, record.name) && U16(record.type) && U16(record.klass) && U32(record.ttl) &&
           U16(size) && Bytes(size, record.data);
  }

 private:
  std::span<const uint8_t> message_;
  size_t position_ = 0;
};

bool ReadHeader(Reader& reader, DnsHeader& header) {
  return reader.U16(header.id) && reader.U16(header.flags) && reader.U16(header.questions) &&
         reader.U16(header.answers) && reader.U16(header.authorities) &&
         reader.U16(header.additionals);
}

DnsRcode ReadQuery(Reader& reader, DnsQuery& query) {
  const DnsHeader& header = query.header;
  if (header.opcode() != 0) return DnsRcode::kNotImplemented;
  if (header.questions != 1 || header.answers != 0 || header.authorities != 0 ||
      header.additionals > 1) {
    return DnsRcode::kFormatError;
  }
  if (!reader.Question(query.question)) return DnsRcode::kFormatError;
  if (header.additionals == 1) {
    DnsRecord record;
    // The only record that a query may carry; its class is the size that the client can take.
    if (!reader.Record(record) || record.type != kDnsTypeOpt || !record.name.empty()) {
      return DnsRcode::kFormatError;
    }
    query.edns = true;
    query.udp_size = std::max<size_t>(record.klass, kDnsPlainUdpSize);
  }
  if (!reader.AtEnd()) return DnsRcode::kFormatError;
  const uint16_t type = query.question.type;
  if (query.question.klass != kDnsClassIn || type == kDnsTypeAxfr || type == kDnsTypeIxfr) {
    return DnsRcode::kRefused;
  }
  return DnsRcode::kNoError;
}

void PutHeader(std::vector<uint8_t>& bytes, uint16_t id, unsigned flags, unsigned questions,
               unsigned additionals) {
  PutU16(bytes, id);
  PutU16(bytes, flags);
  PutU16(bytes, questions);
  PutU16(bytes, 0);
  PutU16(bytes, 0);
  PutU16(bytes, additionals);
}

void PutOpt(std::vector<uint8_t>& bytes) {
  bytes.push_back(0);  // the root
  PutU16(bytes, kDnsTypeOpt);
  PutU16(bytes, 1232);  // dnsflagday.net: passes everywhere unfragmented
  PutU16(bytes, 0);
  PutU16(bytes, 0);
  PutU16(bytes, 0);
}

char Lower(uint8_t byte) {
  return static_cast<char>(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
}

}  // namespace

bool DnsQuestion::Matches(const DnsQuestion& other) const {
  // Length bytes are at most 63 and no letters, so that folding the wire form folds names only;
  // type and class are compared as numbers.
  return type == other.type && klass == other.klass && wire.size() == other.wire.size() &&
         std::equal(wire.begin(), wire.end() - 4, other.wire.begin(),
                    [](uint8_t a, uint8_t b) { return Lower(a) == Lower(b); });
}

std::optional<DnsHeader> ParseDnsHeader(std::span<const uint8_t> message) {
  Reader reader(message);
  DnsHeader header{};
  if (!ReadHeader(reader, header)) return std::nullopt;
  return header;
}

std::optional<DnsQueryResult> ParseDnsQuery(std::span<const uint8_t> message) {
  Reader reader(message);
  DnsQueryResult result{};
  result.query.udp_size = kDnsPlainUdpSize;
  if (!ReadHeader(reader, result.query.header)) return std::nullopt;
  // An answer to an answer could go round for ever.
  if (result.query.header.response()) return std::nullopt;
  result.rcode = ReadQuery(reader, result.query);
  return result;
}

std::optional<DnsResponse> ParseDnsResponse(std::span<const uint8_t> message) {
  Reader reader(message);
  DnsResponse response{};
  if (!ReadHeader(reader, response.header)) return std::nullopt;
  const DnsHeader& header = response.header;
  if (!header.response() || header.opcode() != 0 || header.questions != 1) return std::nullopt;
  if (!reader.Question(response.question)) return std::nullopt;
  const size_t count = size_t{header.answers} + header.authorities + header.additionals;
  for (size_t i = 0; i < count; ++i) {
    DnsRecord record;
    if (!reader.Record(record)) {
      // A truncated answer may end in the middle of a record (RFC 2181 section 9 says not to use
      // what is there); nobody reads its records.
      if (header.truncated()) return response;
      return std::nullopt;
    }
    response.records.push_back(std::move(record));
  }
  if (!reader.AtEnd()) return std::nullopt;
  return response;
}

std::vector<uint8_t> MakeDnsError(std::span<const uint8_t> query, DnsRcode rcode) {
  Reader reader(query);
  DnsHeader header{};
  std::vector<uint8_t> answer;
  if (!ReadHeader(reader, header)) return answer;
  DnsQuestion question;
  const bool repeat = header.questions == 1 && reader.Question(question);
  const unsigned flags = kFlagResponse | kFlagRecursionAvailable |
                         (header.flags & (kOpcodeMask | kFlagRecursionDesired)) |
                         static_cast<unsigned>(rcode);
  PutHeader(answer, header.id, flags, repeat ? 1 : 0, 0);
  if (repeat) answer.insert(answer.end(), question.wire.begin(), question.wire.end());
  return answer;
}

std::vector<uint8_t> MakeDnsTruncated(const DnsQuery& query, uint16_t response_flags) {
  std::vector<uint8_t> answer;
  const unsigned flags = (response_flags & ~kFlagAuthentic) | kFlagTruncated;
  PutHeader(answer, query.header.id, flags, 1, query.edns ? 1 : 0);
  answer.insert(answer.end(), query.question.wire.begin(), query.question.wire.end());
  if (query.edns) PutOpt(answer);
  return answer;
}

void SetDnsId(std::span<uint8_t> message, uint16_t id) {
  message[0] = static_cast<uint8_t>(id >> 8);
  message[1] = static_cast<uint8_t>(id & 0xff);
}

}  // namespace atl::netpolicy
