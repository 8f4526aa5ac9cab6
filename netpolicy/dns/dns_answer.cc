#include "netpolicy/dns/dns_answer.h"

#include <algorithm>
#include <map>

#include "netpolicy/dns/dns_wire.h"

namespace atl::netpolicy {
namespace {

constexpr size_t kMaxPointer = 0x3fff;
constexpr unsigned kPointer = 0xc000;
constexpr size_t kNoPosition = kMaxPointer + 1;

// RFC 2181 section 8: a TTL with the highest bit set counts as 0.
uint32_t Clamp(uint32_t ttl, uint32_t most = kDnsMaxTtl) {
  return ttl > 0x7fffffff ? 0 : std::min(ttl, most);
}

bool IsAddress(const DnsRecord& record) {
  return record.type == kDnsTypeA || record.type == kDnsTypeAaaa;
}

std::optional<IpAddress> AddressIn(const DnsRecord& record) {
  if (record.data.size() != (record.type == kDnsTypeAaaa ? 16U : 4U)) return std::nullopt;
  // An IPv4-mapped address becomes IPv4, because a connection to it would go there.
  return IpAddress::FromBytes(record.data);
}

// The layout of a record's data: what precedes, separates and follows the names in it.
struct DataShape {
  size_t prefix = 0;   // bytes
  size_t strings = 0;  // number of strings, each with a length byte
  size_t names = 0;
  size_t suffix = 0;
};

// Returns the layout of the types whose names may be compressed (RFC 3597 section 4) and that are
// passed on. Empty for all other types.
std::optional<DataShape> ShapeOf(uint16_t type) {
  switch (type) {
    case kDnsTypeNs:
    case kDnsTypeCname:
    case kDnsTypePtr:
      return DataShape{.names = 1};
    case kDnsTypeSoa:
      return DataShape{.names = 2, .suffix = 20};
    case kDnsTypeMx:
      return DataShape{.prefix = 2, .names = 1};
    case kDnsTypeSrv:
      return DataShape{.prefix = 6, .names = 1};
    case kDnsTypeNaptr:
      return DataShape{.prefix = 4, .strings = 3, .names = 1};
    default:
      return std::nullopt;
  }
}

// Copies the data of a record and expands the pointers into its original message.
bool UnpackData(std::span<const uint8_t> message, const DnsRecord& record,
                std::vector<uint8_t>& data) {
  data.clear();
  const auto shape = ShapeOf(record.type);
  if (!shape) {
    data.assign(record.data.begin(), record.data.end());
    return !IsAddress(record) || AddressIn(record).has_value();
  }
  const size_t end = record.data_at + record.data.size();
  DnsReader reader(message.first(end), record.data_at);
  std::span<const uint8_t> bytes;
  const auto copy = [&](size_t size) {
    if (!reader.Bytes(size, bytes)) return false;
    data.insert(data.end(), bytes.begin(), bytes.end());
    return true;
  };
  if (!copy(shape->prefix)) return false;
  for (size_t i = 0; i < shape->strings; ++i) {
    if (!copy(1) || !copy(data.back())) return false;
  }
  std::string text, wire;
  for (size_t i = 0; i < shape->names; ++i) {
    if (!reader.Name(true, text, &wire)) return false;
    data.insert(data.end(), wire.begin(), wire.end());
  }
  return copy(shape->suffix) && reader.AtEnd();
}

bool Covers(const DnsRecord& signature, uint16_t type) {
  return signature.type == kDnsTypeRrsig && signature.data.size() >= 2 &&
         (signature.data[0] << 8 | signature.data[1]) == type;
}

// The owner name of records, and its offset in the message that is written.
struct Owner {
  std::string text;
  std::string wire;
  size_t position = kNoPosition;

  size_t PositionOf(size_t skipped) const {
    return position + skipped > kMaxPointer ? kNoPosition : position + skipped;
  }
};

class AnswerBuilder {
 public:
  AnswerBuilder(const DnsLookup& lookup, std::span<const uint8_t> message,
                const DnsResponse& response)
      : lookup_(lookup), message_(message), response_(response) {
    owner_ = {response.question.name, lookup.name, kDnsHeaderSize};
    answer_.rcode = static_cast<DnsRcode>(response.header.rcode());
    answer_.authentic = (response.header.flags & kDnsFlagAuthentic) != 0;
    answer_.ttl = kDnsMaxTtl;
  }

  std::optional<DnsAnswer> Build() {
    if (!FollowAliases() || !CheckAddresses()) return std::nullopt;
    const bool exists = answer_.rcode == DnsRcode::kNoError;
    if (exists && !PutSet(lookup_.type)) return std::nullopt;
    if (!found_ && !PutNegative()) return std::nullopt;
    return std::move(answer_);
  }

 private:
  std::span<const DnsRecord> Section(size_t begin, size_t size) const {
    return std::span(response_.records).subspan(begin, size);
  }
  std::span<const DnsRecord> answers() const { return Section(0, response_.header.answers); }
  std::span<const DnsRecord> authorities() const {
    return Section(response_.header.answers, response_.header.authorities);
  }

  bool FollowAliases() {
    if (lookup_.type == kDnsTypeCname) return true;
    std::map<std::string_view, const DnsRecord*> aliases;
    for (const DnsRecord& record : answers()) {
      if (record.klass != kDnsClassIn || record.type != kDnsTypeCname) continue;
      // If a name has two aliases, it is undefined which one is meant (RFC 2181 section 10.1).
      if (!aliases.emplace(record.name, &record).second) return false;
    }
    for (auto alias = aliases.find(owner_.text); alias != aliases.end();
         alias = aliases.find(owner_.text)) {
      // The limit also ends loops.
      if (answer_.aliases.size() == kDnsMaxChain) return false;
      if (!PutSet(kDnsTypeCname)) return false;
      DnsReader reader(message_, alias->second->data_at);
      Owner target;
      if (!reader.Name(true, target.text, &target.wire)) return false;
      target.position = alias_position_;
      owner_ = std::move(target);
      answer_.aliases.push_back(owner_.text);
    }
    found_ = false;
    return true;
  }

  // Returns true if only the name at the end of the chain has addresses.
  bool CheckAddresses() const {
    return std::all_of(answers().begin(), answers().end(), [&](const DnsRecord& record) {
      return record.klass != kDnsClassIn || !IsAddress(record) || record.name == owner_.text;
    });
  }

  // Appends the records of one type that the owner has, and their signatures if the client wants
  // them.
  bool PutSet(uint16_t type) {
    for (const DnsRecord& record : answers()) {
      if (record.klass != kDnsClassIn || record.name != owner_.text) continue;
      if (record.type == type) {
        if (!Put(owner_.wire, owner_.position, record, Clamp(record.ttl))) return false;
        found_ = true;
      } else if (lookup_.dnssec_ok && Covers(record, type)) {
        if (!Put(owner_.wire, owner_.position, record, Clamp(record.ttl))) return false;
      }
    }
    return true;
  }

  bool Put(std::string_view name, size_t name_position, const DnsRecord& record, uint32_t ttl) {
    const bool wanted_address = IsAddress(record) && record.type == lookup_.type;
    if (wanted_address && answer_.addresses.size() == kDnsMaxAddresses) return true;
    if (!UnpackData(message_, record, data_)) return false;
    if (wanted_address) answer_.addresses.push_back(*AddressIn(record));
    std::vector<uint8_t>& out = answer_.records;
    if (name_position == kNoPosition) {
      out.insert(out.end(), name.begin(), name.end());
    } else {
      PutDnsU16(out, kPointer | static_cast<unsigned>(name_position));
    }
    PutDnsU16(out, record.type);
    PutDnsU16(out, kDnsClassIn);
    answer_.ttls.push_back(static_cast<uint16_t>(out.size()));
    PutDnsU32(out, ttl);
    PutDnsU16(out, static_cast<unsigned>(data_.size()));
    const size_t position = kDnsHeaderSize + lookup_.name.size() + 4 + out.size();
    if (record.type == kDnsTypeCname) {
      alias_position_ = position > kMaxPointer ? kNoPosition : position;
    }
    out.insert(out.end(), data_.begin(), data_.end());
    ++answer_.answers;
    answer_.ttl = std::min(answer_.ttl, ttl);
    // The names were decompressed, so the message may have become too long.
    return position + data_.size() + kDnsOptSize <= kDnsMaxMessage;
  }

  // RFC 2308: the SOA of the zone tells that the name does not exist, or has no data of this type.
  bool PutNegative() {
    const auto soa =
        std::find_if(authorities().begin(), authorities().end(), [&](const DnsRecord& record) {
          return record.klass == kDnsClassIn && record.type == kDnsTypeSoa && IsAbove(record.name);
        });
    if (soa == authorities().end()) {
      answer_.ttl = 0;
      return true;
    }
    if (!UnpackData(message_, *soa, data_)) return false;
    uint32_t minimum = 0;
    if (!DnsReader(data_, data_.size() - 4).U32(minimum)) return false;
    const uint32_t ttl =
        std::min(Clamp(soa->ttl, kDnsMaxNegativeTtl), Clamp(minimum, kDnsMaxNegativeTtl));
    const size_t skipped = SkippedLabels(soa->name);
    if (!Put(std::string_view(owner_.wire).substr(skipped), owner_.PositionOf(skipped), *soa,
             ttl)) {
      return false;
    }
    --answer_.answers;
    ++answer_.authorities;
    return true;
  }

  // Returns true if `zone` is the owner or one of its parents.
  bool IsAbove(const std::string& zone) const {
    if (zone.empty()) return true;
    const std::string& name = owner_.text;
    return name.ends_with(zone) &&
           (name.size() == zone.size() || name[name.size() - zone.size() - 1] == '.');
  }

  // Returns the number of bytes that the owner's labels before `zone` take on the wire.
  size_t SkippedLabels(const std::string& zone) const {
    const auto labels = static_cast<size_t>(std::count(zone.begin(), zone.end(), '.'));
    size_t skip = DnsLabelCount(owner_.wire) - (zone.empty() ? 0 : labels + 1);
    size_t at = 0;
    for (; skip > 0; --skip) at += static_cast<uint8_t>(owner_.wire[at]) + size_t{1};
    return at;
  }

  const DnsLookup& lookup_;
  std::span<const uint8_t> message_;
  const DnsResponse& response_;
  Owner owner_;  // the owner whose records are being copied
  size_t alias_position_ = kNoPosition;
  bool found_ = false;
  std::vector<uint8_t> data_;
  DnsAnswer answer_;
};

}  // namespace

size_t DnsAnswer::MemorySize() const {
  size_t size = sizeof *this + records.capacity() + ttls.capacity() * sizeof ttls[0] +
                addresses.capacity() * sizeof addresses[0];
  for (const std::string& alias : aliases) size += sizeof alias + alias.capacity();
  return size;
}

std::optional<DnsAnswer> ReadDnsAnswer(const DnsLookup& lookup, std::span<const uint8_t> message) {
  const auto response = ParseDnsResponse(message);
  if (!response || !IsAnswerTo(*response, lookup)) return std::nullopt;
  DnsAnswer empty;
  empty.rcode = static_cast<DnsRcode>(response->header.rcode());
  if (response->header.truncated()) {
    empty.truncated = true;
    return empty;
  }
  if (empty.rcode != DnsRcode::kNoError && empty.rcode != DnsRcode::kNxDomain) return empty;
  return AnswerBuilder(lookup, message, *response).Build();
}

DnsAnswer MakeDnsAnswer(uint16_t type, std::span<const IpAddress> addresses, uint32_t ttl) {
  DnsAnswer answer;
  answer.ttl = ttl;
  for (const IpAddress& address : addresses) {
    if (type != (address.ipv6 ? kDnsTypeAaaa : kDnsTypeA)) continue;
    if (answer.addresses.size() == kDnsMaxAddresses) break;
    const auto data = address.span();
    PutDnsU16(answer.records, kPointer | kDnsHeaderSize);
    PutDnsU16(answer.records, type);
    PutDnsU16(answer.records, kDnsClassIn);
    answer.ttls.push_back(static_cast<uint16_t>(answer.records.size()));
    PutDnsU32(answer.records, ttl);
    PutDnsU16(answer.records, static_cast<unsigned>(data.size()));
    answer.records.insert(answer.records.end(), data.begin(), data.end());
    answer.addresses.push_back(address);
    ++answer.answers;
  }
  return answer;
}

std::vector<uint8_t> MakeDnsReply(const DnsQuery& query, const DnsAnswer& answer, uint32_t age,
                                  uint32_t most_ttl) {
  const auto question = query.question.wire;
  std::vector<uint8_t> reply;
  reply.reserve(kDnsHeaderSize + question.size() + answer.records.size() + kDnsOptSize);
  const unsigned flags =
      kDnsFlagResponse | kDnsFlagRecursionAvailable |
      (query.header.flags & (kDnsFlagRecursionDesired | kDnsFlagCheckingDisabled)) |
      (answer.truncated ? kDnsFlagTruncated : 0) |
      (answer.authentic && query.dnssec_ok ? kDnsFlagAuthentic : 0) |
      static_cast<unsigned>(answer.rcode);
  PutDnsHeader(reply, {.id = query.header.id,
                       .flags = static_cast<uint16_t>(flags),
                       .questions = 1,
                       .answers = answer.answers,
                       .authorities = answer.authorities,
                       .additionals = static_cast<uint16_t>(query.edns ? 1 : 0)});
  reply.insert(reply.end(), question.begin(), question.end());
  const size_t records = reply.size();
  reply.insert(reply.end(), answer.records.begin(), answer.records.end());
  for (const uint16_t at : answer.ttls) {
    const std::span<uint8_t> field = std::span(reply).subspan(records + at, 4);
    uint32_t ttl = 0;
    if (!DnsReader(field).U32(ttl)) continue;
    ttl = std::min(ttl - std::min(ttl, age), most_ttl);
    for (size_t i = 0; i < 4; ++i) field[i] = static_cast<uint8_t>(ttl >> (24 - 8 * i) & 0xff);
  }
  if (query.edns) PutDnsOpt(reply, query.dnssec_ok);
  return reply;
}

}  // namespace atl::netpolicy
