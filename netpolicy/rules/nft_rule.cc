// NftTransaction::Rule: the statements of rules.
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <bit>

#include "netpolicy/rules/nft.h"

namespace atl::netpolicy {
namespace {

// A rule's user data is a list of (type, length, bytes) in nft(8)'s own format. Type 0 is a
// comment.
constexpr uint8_t kUserDataComment = 0;
// Enough for an IPv6 header, a few of its extensions, and the ports.
constexpr uint32_t kLoggedBytes = 128;
// Up to this number, connections are counted exactly, in one list.
constexpr uint32_t kConnectionsPerList = 128;

}  // namespace

NftTransaction::Rule::Rule(NetlinkBatch* batch, std::string_view comment)
    : batch_(batch), comment_(comment) {
  expressions_.emplace(batch_, NFTA_RULE_EXPRESSIONS);
}

NftTransaction::Rule::~Rule() {
  expressions_.reset();
  std::vector<uint8_t> data{kUserDataComment, static_cast<uint8_t>(comment_.size() + 1)};
  data.insert(data.end(), comment_.begin(), comment_.end());
  data.push_back(0);
  batch_->Put(NFTA_RULE_USERDATA, data);
}

template <typename F>
void NftTransaction::Rule::Expression(const char* name, const F& put_data) {
  auto element = batch_->OpenNest(NFTA_LIST_ELEM);
  batch_->PutString(NFTA_EXPR_NAME, name);
  auto data = batch_->OpenNest(NFTA_EXPR_DATA);
  put_data();
}

void NftTransaction::Rule::Meta(uint32_t key, uint32_t reg) {
  Expression("meta", [&] {
    batch_->PutBe32(NFTA_META_KEY, key);
    batch_->PutBe32(NFTA_META_DREG, reg);
  });
}

void NftTransaction::Rule::Compare(uint32_t op, std::span<const uint8_t> value) {
  Expression("cmp", [&] {
    batch_->PutBe32(NFTA_CMP_SREG, NFT_REG_1);
    batch_->PutBe32(NFTA_CMP_OP, op);
    auto data = batch_->OpenNest(NFTA_CMP_DATA);
    batch_->Put(NFTA_DATA_VALUE, value);
  });
}

void NftTransaction::Rule::InterfaceName(uint32_t key, uint32_t op, std::string_view prefix) {
  Meta(key, NFT_REG_1);
  // Compares only the bytes of the prefix, so the rest of the name may be anything.
  Compare(op, {reinterpret_cast<const uint8_t*>(prefix.data()), prefix.size()});
}

void NftTransaction::Rule::Payload(uint32_t base, uint32_t offset, uint32_t size, uint32_t reg) {
  Expression("payload", [&] {
    batch_->PutBe32(NFTA_PAYLOAD_DREG, reg);
    batch_->PutBe32(NFTA_PAYLOAD_BASE, base);
    batch_->PutBe32(NFTA_PAYLOAD_OFFSET, offset);
    batch_->PutBe32(NFTA_PAYLOAD_LEN, size);
  });
}

void NftTransaction::Rule::Lookup(const std::string& set, uint32_t reg, bool inverted) {
  Expression("lookup", [&] {
    batch_->PutString(NFTA_LOOKUP_SET, set);
    batch_->PutBe32(NFTA_LOOKUP_SREG, reg);
    if (inverted) batch_->PutBe32(NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
  });
}

void NftTransaction::Rule::LookupValue(const std::string& map, uint32_t reg, uint32_t value_reg) {
  Expression("lookup", [&] {
    batch_->PutString(NFTA_LOOKUP_SET, map);
    batch_->PutBe32(NFTA_LOOKUP_SREG, reg);
    batch_->PutBe32(NFTA_LOOKUP_DREG, value_reg);
  });
}

// The key begins at NFT_REG32_00.
void NftTransaction::Rule::LookupOrCompare(const std::string& set, std::optional<uint32_t> value) {
  if (!value) return Lookup(set, NFT_REG32_00);
  LookupValue(set, NFT_REG32_00, NFT_REG_1);
  if (*value == 0) return;
  Compare(NFT_CMP_EQ, {reinterpret_cast<const uint8_t*>(&*value), sizeof *value});
}

void NftTransaction::Rule::Immediate(uint32_t reg, std::span<const uint8_t> bytes) {
  Expression("immediate", [&] {
    batch_->PutBe32(NFTA_IMMEDIATE_DREG, reg);
    auto data = batch_->OpenNest(NFTA_IMMEDIATE_DATA);
    batch_->Put(NFTA_DATA_VALUE, bytes);
  });
}

void NftTransaction::Rule::Verdict(int32_t code, const std::string& chain) {
  Expression("immediate", [&] {
    batch_->PutBe32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    auto data = batch_->OpenNest(NFTA_IMMEDIATE_DATA);
    auto verdict = batch_->OpenNest(NFTA_DATA_VERDICT);
    batch_->PutBe32(NFTA_VERDICT_CODE, static_cast<uint32_t>(code));
    if (!chain.empty()) batch_->PutString(NFTA_VERDICT_CHAIN, chain);
  });
}

NftTransaction::Rule& NftTransaction::Rule::InFrom(std::string_view prefix) {
  InterfaceName(NFT_META_IIFNAME, NFT_CMP_EQ, prefix);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InNotFrom(std::string_view prefix) {
  InterfaceName(NFT_META_IIFNAME, NFT_CMP_NEQ, prefix);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::OutTo(std::string_view prefix) {
  InterfaceName(NFT_META_OIFNAME, NFT_CMP_EQ, prefix);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::OutNotTo(std::string_view prefix) {
  InterfaceName(NFT_META_OIFNAME, NFT_CMP_NEQ, prefix);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::IsIpv4() {
  Meta(NFT_META_NFPROTO, NFT_REG_1);
  Compare(NFT_CMP_EQ, std::array<uint8_t, 1>{NFPROTO_IPV4});
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::IsIpv6() {
  Meta(NFT_META_NFPROTO, NFT_REG_1);
  Compare(NFT_CMP_EQ, std::array<uint8_t, 1>{NFPROTO_IPV6});
  return *this;
}

namespace {

// Offsets of the addresses in the headers (RFC 791, RFC 8200).
struct AddressFields {
  uint32_t source, destination, size;
};
constexpr AddressFields kIpv4Fields{12, 16, 4};
constexpr AddressFields kIpv6Fields{8, 24, 16};
constexpr uint32_t kEthernetSource = 6;
constexpr uint32_t kMacSize = 6;
constexpr uint32_t kDestinationPort = 2;  // offset in TCP, UDP and SCTP

}  // namespace

NftTransaction::Rule& NftTransaction::Rule::Source(std::span<const uint8_t> leading, bool ipv6) {
  Payload(NFT_PAYLOAD_NETWORK_HEADER, (ipv6 ? kIpv6Fields : kIpv4Fields).source,
          static_cast<uint32_t>(leading.size()), NFT_REG_1);
  Compare(NFT_CMP_EQ, leading);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::Destination(std::span<const uint8_t> leading,
                                                        bool ipv6) {
  Payload(NFT_PAYLOAD_NETWORK_HEADER, (ipv6 ? kIpv6Fields : kIpv4Fields).destination,
          static_cast<uint32_t>(leading.size()), NFT_REG_1);
  Compare(NFT_CMP_EQ, leading);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::DestinationIn(const std::string& set, bool ipv6) {
  const AddressFields& fields = ipv6 ? kIpv6Fields : kIpv4Fields;
  Payload(NFT_PAYLOAD_NETWORK_HEADER, fields.destination, fields.size, NFT_REG_1);
  Lookup(set, NFT_REG_1);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::LinkSourceIn(const std::string& set, bool ipv6) {
  // A concatenation is in consecutive 4-byte registers: 16 bytes of name, the address, the MAC.
  const AddressFields& fields = ipv6 ? kIpv6Fields : kIpv4Fields;
  const uint32_t mac = NFT_REG32_04 + fields.size / NFT_REG32_SIZE;
  Meta(NFT_META_IIFNAME, NFT_REG32_00);
  Payload(NFT_PAYLOAD_NETWORK_HEADER, fields.source, fields.size, NFT_REG32_04);
  Payload(NFT_PAYLOAD_LL_HEADER, kEthernetSource, kMacSize, mac);
  Lookup(set, NFT_REG32_00);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InIn(const std::string& set) {
  Meta(NFT_META_IIF, NFT_REG_1);
  Lookup(set, NFT_REG_1);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InNotIn(const std::string& set) {
  Meta(NFT_META_IIF, NFT_REG_1);
  Lookup(set, NFT_REG_1, true);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InDestinationIn(const std::string& set, bool ipv6,
                                                            std::optional<uint32_t> value) {
  const AddressFields& fields = ipv6 ? kIpv6Fields : kIpv4Fields;
  Meta(NFT_META_IIF, NFT_REG32_00);
  Payload(NFT_PAYLOAD_NETWORK_HEADER, fields.destination, fields.size, NFT_REG32_01);
  LookupOrCompare(set, value);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InPortDestinationIn(const std::string& set, bool ipv6,
                                                                bool any_port,
                                                                std::optional<uint32_t> value) {
  const AddressFields& fields = ipv6 ? kIpv6Fields : kIpv4Fields;
  Meta(NFT_META_IIF, NFT_REG32_00);
  Meta(NFT_META_L4PROTO, NFT_REG32_01);
  if (any_port) {
    Immediate(NFT_REG32_02, std::array<uint8_t, 4>{});
  } else {
    Payload(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPort, 2, NFT_REG32_02);
  }
  Payload(NFT_PAYLOAD_NETWORK_HEADER, fields.destination, fields.size, NFT_REG32_03);
  LookupOrCompare(set, value);
  return *this;
}

void NftTransaction::Rule::SetMark(uint32_t reg) {
  Expression("meta", [&] {
    batch_->PutBe32(NFTA_META_KEY, NFT_META_MARK);
    batch_->PutBe32(NFTA_META_SREG, reg);
  });
}

NftTransaction::Rule& NftTransaction::Rule::Mark(uint32_t mark) {
  Immediate(NFT_REG_1, {reinterpret_cast<const uint8_t*>(&mark), sizeof mark});
  SetMark(NFT_REG_1);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::SetMarkBits(uint32_t bits) {
  Meta(NFT_META_MARK, NFT_REG_1);
  Bitwise(NFT_REG_1, ~bits, bits);
  SetMark(NFT_REG_1);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::ClearMarkBits(uint32_t bits) {
  Meta(NFT_META_MARK, NFT_REG_1);
  Bitwise(NFT_REG_1, ~bits, 0);
  SetMark(NFT_REG_1);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::MarkLacks(uint32_t bits) {
  Meta(NFT_META_MARK, NFT_REG_1);
  Bitwise(NFT_REG_1, bits, 0);
  Compare(NFT_CMP_EQ, std::array<uint8_t, 4>{});
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::MarkByIn(const std::string& map) {
  Meta(NFT_META_IIF, NFT_REG_1);
  LookupValue(map, NFT_REG_1, NFT_REG_1);
  SetMark(NFT_REG_1);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::MarkDestinationIn(const std::string& set, bool ipv6) {
  const AddressFields& fields = ipv6 ? kIpv6Fields : kIpv4Fields;
  Meta(NFT_META_MARK, NFT_REG32_00);
  Payload(NFT_PAYLOAD_NETWORK_HEADER, fields.destination, fields.size, NFT_REG32_01);
  Lookup(set, NFT_REG32_00);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::DestinationIsLocal() {
  Expression("fib", [&] {
    batch_->PutBe32(NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    batch_->PutBe32(NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    batch_->PutBe32(NFTA_FIB_DREG, NFT_REG_1);
  });
  const uint32_t local = RTN_LOCAL;
  Compare(NFT_CMP_EQ, {reinterpret_cast<const uint8_t*>(&local), sizeof local});
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::Protocol(uint8_t l4proto) {
  Meta(NFT_META_L4PROTO, NFT_REG_1);
  Compare(NFT_CMP_EQ, std::array<uint8_t, 1>{l4proto});
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::DestinationPort(uint16_t port) {
  Payload(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPort, 2, NFT_REG_1);
  Compare(NFT_CMP_EQ, std::array<uint8_t, 2>{static_cast<uint8_t>(port >> 8),
                                             static_cast<uint8_t>(port & 0xff)});
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::IcmpType(uint8_t type) {
  Payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, NFT_REG_1);
  Compare(NFT_CMP_EQ, std::array<uint8_t, 1>{type});
  return *this;
}

void NftTransaction::Rule::Bitwise(uint32_t reg, uint32_t mask, uint32_t bits) {
  const auto put = [&](uint16_t attribute, const uint32_t& value) {
    auto nest = batch_->OpenNest(attribute);
    batch_->Put(NFTA_DATA_VALUE, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
  };
  Expression("bitwise", [&] {
    batch_->PutBe32(NFTA_BITWISE_SREG, reg);
    batch_->PutBe32(NFTA_BITWISE_DREG, reg);
    batch_->PutBe32(NFTA_BITWISE_LEN, sizeof mask);
    put(NFTA_BITWISE_MASK, mask);
    put(NFTA_BITWISE_XOR, bits);
  });
}

void NftTransaction::Rule::Tracked(uint32_t key, uint32_t reg) {
  Expression("ct", [&] {
    batch_->PutBe32(NFTA_CT_KEY, key);
    batch_->PutBe32(NFTA_CT_DREG, reg);
  });
}

void NftTransaction::Rule::BitsSet(uint32_t key, uint32_t mask) {
  Tracked(key, NFT_REG_1);
  Bitwise(NFT_REG_1, mask, 0);
  Compare(NFT_CMP_NEQ, std::array<uint8_t, 4>{});
}

NftTransaction::Rule& NftTransaction::Rule::ConnectionState(uint32_t mask) {
  BitsSet(NFT_CT_STATE, mask);
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::DestinationTranslated() {
  BitsSet(NFT_CT_STATUS, IPS_DST_NAT);
  return *this;
}

template <typename F>
void NftTransaction::Rule::UpdateSet(const std::string& set, uint32_t operation, const char* name,
                                     const F& put_data) {
  Meta(NFT_META_IIF, NFT_REG_1);
  Expression("dynset", [&] {
    batch_->PutString(NFTA_DYNSET_SET_NAME, set);
    batch_->PutBe32(NFTA_DYNSET_SREG_KEY, NFT_REG_1);
    batch_->PutBe32(NFTA_DYNSET_OP, operation);
    auto expression = batch_->OpenNest(NFTA_DYNSET_EXPR);
    batch_->PutString(NFTA_EXPR_NAME, name);
    auto data = batch_->OpenNest(NFTA_EXPR_DATA);
    put_data();
  });
}

NftTransaction::Rule& NftTransaction::Rule::InRate(const std::string& set, uint32_t per_second,
                                                   uint32_t burst) {
  return Limit(set, per_second, burst, 0);
}

NftTransaction::Rule& NftTransaction::Rule::InRateOver(const std::string& set, uint32_t per_second,
                                                       uint32_t burst) {
  return Limit(set, per_second, burst, NFT_LIMIT_F_INV);
}

NftTransaction::Rule& NftTransaction::Rule::Limit(const std::string& set, uint32_t per_second,
                                                  uint32_t burst, uint32_t flags) {
  UpdateSet(set, NFT_DYNSET_OP_UPDATE, "limit", [&] {
    batch_->PutBe64(NFTA_LIMIT_RATE, per_second);
    batch_->PutBe64(NFTA_LIMIT_UNIT, 1);
    batch_->PutBe32(NFTA_LIMIT_BURST, burst);
    batch_->PutBe32(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    batch_->PutBe32(NFTA_LIMIT_FLAGS, flags);
  });
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InConnectionsOver(const std::string& set,
                                                              uint32_t connections) {
  // The kernel walks all connections of a list for each one that it adds. With all 4,096 in one
  // list, a burst kept a CPU in a softirq for 20 ms. They are spread by the connection's id, which
  // is random and does not change.
  const uint32_t lists =
      std::clamp(std::bit_floor(connections / kConnectionsPerList), 1u, kMostConnectionLists);
  Tracked(NFT_CT_ID, NFT_REG32_01);
  Bitwise(NFT_REG32_01, lists - 1, 0);
  UpdateSet(set, NFT_DYNSET_OP_ADD, "connlimit", [&] {
    batch_->PutBe32(NFTA_CONNLIMIT_COUNT, connections / lists);
    batch_->PutBe32(NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
  });
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::Log(uint16_t group) {
  Expression("log", [&] {
    batch_->PutBe16(NFTA_LOG_GROUP, group);
    batch_->PutBe32(NFTA_LOG_SNAPLEN, kLoggedBytes);
  });
  return *this;
}

void NftTransaction::Rule::Accept() {
  Verdict(NF_ACCEPT, "");
}

void NftTransaction::Rule::Drop() {
  Verdict(NF_DROP, "");
}

void NftTransaction::Rule::Reject() {
  Expression("reject", [&] {
    batch_->PutBe32(NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
    batch_->PutU8(NFTA_REJECT_ICMP_CODE, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
  });
}

void NftTransaction::Rule::Reset() {
  Expression("reject", [&] { batch_->PutBe32(NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST); });
}

void NftTransaction::Rule::Jump(const std::string& chain) {
  Verdict(NFT_JUMP, chain);
}

void NftTransaction::Rule::Goto(const std::string& chain) {
  Verdict(NFT_GOTO, chain);
}

void NftTransaction::Rule::TranslateDestination(std::span<const uint8_t> address, bool ipv6,
                                                uint16_t port) {
  Immediate(NFT_REG_1, address);
  Immediate(NFT_REG_2, std::array<uint8_t, 2>{static_cast<uint8_t>(port >> 8),
                                              static_cast<uint8_t>(port & 0xff)});
  Expression("nat", [&] {
    batch_->PutBe32(NFTA_NAT_TYPE, NFT_NAT_DNAT);
    batch_->PutBe32(NFTA_NAT_FAMILY, ipv6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
    batch_->PutBe32(NFTA_NAT_REG_ADDR_MIN, NFT_REG_1);
    batch_->PutBe32(NFTA_NAT_REG_PROTO_MIN, NFT_REG_2);
  });
}

void NftTransaction::Rule::Masquerade() {
  Expression("masq", [] {});
}

}  // namespace atl::netpolicy
