#include "netpolicy/nft.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>

namespace atl::netpolicy {
namespace {

// nft(8)'s number of the data type, for its listings.
constexpr uint32_t kTypeInteger = 4;
// A message's list is one attribute of at most 64 KiB.
constexpr size_t kElementsPerMessage = 256;
// IPv6's header, a few of its extensions, and the ports.
constexpr uint32_t kLoggedBytes = 128;

// A rule's user data is a list of (type, length, bytes), nft(8)'s own format; 0 is a comment.
constexpr uint8_t kUserDataComment = 0;

nfgenmsg GenHeader(uint8_t family, uint16_t resource) {
  nfgenmsg header{};
  header.nfgen_family = family;
  header.version = NFNETLINK_V0;
  header.res_id = htons(resource);
  return header;
}

}  // namespace

NftTransaction::NftTransaction(std::string table) : table_(std::move(table)) {
  batch_.Begin(NFNL_MSG_BATCH_BEGIN, NetlinkBatch::kNoAck, "nft batch begin");
  batch_.Header(GenHeader(AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
}

void NftTransaction::Begin(uint16_t type, uint16_t flags, const std::string& what) {
  batch_.Begin(static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type), flags,
               what + " in table inet " + table_);
  batch_.Header(GenHeader(NFPROTO_INET, 0));
}

void NftTransaction::AddTable() {
  Begin(NFT_MSG_NEWTABLE, NLM_F_CREATE, "nft add table");
  batch_.PutString(NFTA_TABLE_NAME, table_);
}

void NftTransaction::DeleteTable() {
  Begin(NFT_MSG_DELTABLE, 0, "nft delete table");
  batch_.PutString(NFTA_TABLE_NAME, table_);
}

void NftTransaction::AddChain(const std::string& chain) {
  Begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE, "nft add chain " + chain);
  batch_.PutString(NFTA_CHAIN_TABLE, table_);
  batch_.PutString(NFTA_CHAIN_NAME, chain);
}

void NftTransaction::AddBaseChain(const std::string& chain, const BaseChain& base) {
  AddChain(chain);
  {
    auto hook = batch_.OpenNest(NFTA_CHAIN_HOOK);
    batch_.PutBe32(NFTA_HOOK_HOOKNUM, base.hook);
    batch_.PutBe32(NFTA_HOOK_PRIORITY, static_cast<uint32_t>(base.priority));
  }
  batch_.PutString(NFTA_CHAIN_TYPE, base.type);
  batch_.PutBe32(NFTA_CHAIN_POLICY, NF_ACCEPT);
}

void NftTransaction::AddSet(const SetSpec& set) {
  Begin(NFT_MSG_NEWSET, NLM_F_CREATE, "nft add set " + set.name);
  batch_.PutString(NFTA_SET_TABLE, table_);
  batch_.PutString(NFTA_SET_NAME, set.name);
  uint32_t flags = 0;
  if (set.interval) flags |= NFT_SET_INTERVAL;
  if (set.data_size > 0) flags |= NFT_SET_MAP;
  if (set.expires) flags |= NFT_SET_TIMEOUT;
  if (set.dynamic) flags |= NFT_SET_EVAL;
  batch_.PutBe32(NFTA_SET_FLAGS, flags);
  batch_.PutBe32(NFTA_SET_KEY_TYPE, set.key_type);
  batch_.PutBe32(NFTA_SET_KEY_LEN, set.key_size);
  batch_.PutBe32(NFTA_SET_ID, next_set_id_++);
  if (set.data_size > 0) {
    batch_.PutBe32(NFTA_SET_DATA_TYPE, kTypeInteger);
    batch_.PutBe32(NFTA_SET_DATA_LEN, set.data_size);
  }
  if (set.capacity > 0) {
    auto description = batch_.OpenNest(NFTA_SET_DESC);
    batch_.PutBe32(NFTA_SET_DESC_SIZE, set.capacity);
  }
  if (set.counts) {
    auto expression = batch_.OpenNest(NFTA_SET_EXPR);
    batch_.PutString(NFTA_EXPR_NAME, "counter");
    auto data = batch_.OpenNest(NFTA_EXPR_DATA);
  }
}

void NftTransaction::FlushRules() {
  Begin(NFT_MSG_DELRULE, 0, "nft flush rules");
  batch_.PutString(NFTA_RULE_TABLE, table_);
}

void NftTransaction::FlushSet(const std::string& set) {
  Begin(NFT_MSG_DELSETELEM, 0, "nft flush set " + set);
  batch_.PutString(NFTA_SET_ELEM_LIST_TABLE, table_);
  batch_.PutString(NFTA_SET_ELEM_LIST_SET, set);
}

void NftTransaction::PutElement(std::span<const uint8_t> key, uint32_t flags) {
  auto element = batch_.OpenNest(NFTA_LIST_ELEM);
  if (flags != 0) batch_.PutBe32(NFTA_SET_ELEM_FLAGS, flags);
  auto nest = batch_.OpenNest(NFTA_SET_ELEM_KEY);
  batch_.Put(NFTA_DATA_VALUE, key);
}

void NftTransaction::AddElement(const std::string& set, std::span<const uint8_t> key) {
  Begin(NFT_MSG_NEWSETELEM, NLM_F_CREATE, "nft add element to " + set);
  batch_.PutString(NFTA_SET_ELEM_LIST_TABLE, table_);
  batch_.PutString(NFTA_SET_ELEM_LIST_SET, set);
  auto list = batch_.OpenNest(NFTA_SET_ELEM_LIST_ELEMENTS);
  PutElement(key, 0);
}

void NftTransaction::DeleteElement(const std::string& set, std::span<const uint8_t> key) {
  Begin(NFT_MSG_DELSETELEM, 0, "nft delete element of " + set);
  batch_.PutString(NFTA_SET_ELEM_LIST_TABLE, table_);
  batch_.PutString(NFTA_SET_ELEM_LIST_SET, set);
  auto list = batch_.OpenNest(NFTA_SET_ELEM_LIST_ELEMENTS);
  PutElement(key, 0);
}

void NftTransaction::PutElement(const Element& element) {
  auto nest = batch_.OpenNest(NFTA_LIST_ELEM);
  if (element.interval_end) batch_.PutBe32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
  {
    auto key = batch_.OpenNest(NFTA_SET_ELEM_KEY);
    batch_.Put(NFTA_DATA_VALUE, element.key);
  }
  if (!element.data.empty()) {
    auto data = batch_.OpenNest(NFTA_SET_ELEM_DATA);
    batch_.Put(NFTA_DATA_VALUE, element.data);
  }
  if (element.timeout_seconds > 0) {
    batch_.PutBe64(NFTA_SET_ELEM_TIMEOUT, uint64_t{element.timeout_seconds} * 1000);
  }
  if (element.bytes_per_second > 0) {
    auto expression = batch_.OpenNest(NFTA_SET_ELEM_EXPR);
    batch_.PutString(NFTA_EXPR_NAME, "limit");
    auto data = batch_.OpenNest(NFTA_EXPR_DATA);
    // A tenth of a second at once, and no less than a few of the 64 KiB that one packet may have
    // on a veth.
    const uint64_t burst = std::max<uint64_t>(element.bytes_per_second / 10, 256 << 10);
    batch_.PutBe64(NFTA_LIMIT_RATE, element.bytes_per_second);
    batch_.PutBe64(NFTA_LIMIT_UNIT, 1);
    batch_.PutBe32(NFTA_LIMIT_BURST, static_cast<uint32_t>(std::min<uint64_t>(burst, UINT32_MAX)));
    batch_.PutBe32(NFTA_LIMIT_TYPE, NFT_LIMIT_PKT_BYTES);
    batch_.PutBe32(NFTA_LIMIT_FLAGS, NFT_LIMIT_F_INV);
  }
}

void NftTransaction::PutElements(uint16_t type, uint16_t flags, const std::string& what,
                                 const std::string& set, std::span<const Element> elements) {
  while (!elements.empty()) {
    const auto now = elements.first(std::min(elements.size(), kElementsPerMessage));
    Begin(type, flags, what);
    batch_.PutString(NFTA_SET_ELEM_LIST_TABLE, table_);
    batch_.PutString(NFTA_SET_ELEM_LIST_SET, set);
    auto list = batch_.OpenNest(NFTA_SET_ELEM_LIST_ELEMENTS);
    for (const Element& element : now) PutElement(element);
    elements = elements.subspan(now.size());
  }
}

void NftTransaction::AddElements(const std::string& set, std::span<const Element> elements) {
  PutElements(NFT_MSG_NEWSETELEM, NLM_F_CREATE, "nft add elements to " + set, set, elements);
}

void NftTransaction::DeleteElements(const std::string& set, std::span<const Element> elements) {
  PutElements(NFT_MSG_DELSETELEM, 0, "nft delete elements of " + set, set, elements);
}

void NftTransaction::AddIntervals(const std::string& set, const std::vector<Interval>& intervals) {
  Begin(NFT_MSG_NEWSETELEM, NLM_F_CREATE, "nft add intervals to " + set);
  batch_.PutString(NFTA_SET_ELEM_LIST_TABLE, table_);
  batch_.PutString(NFTA_SET_ELEM_LIST_SET, set);
  auto list = batch_.OpenNest(NFTA_SET_ELEM_LIST_ELEMENTS);
  for (const Interval& interval : intervals) {
    PutElement(interval.first, 0);
    if (!interval.end.empty()) PutElement(interval.end, NFT_SET_ELEM_INTERVAL_END);
  }
}

NftTransaction::Rule NftTransaction::AddRule(const std::string& chain, std::string_view comment) {
  Begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND,
        "nft add rule \"" + std::string(comment) + "\" to " + chain);
  batch_.PutString(NFTA_RULE_TABLE, table_);
  batch_.PutString(NFTA_RULE_CHAIN, chain);
  return Rule(&batch_, comment);
}

Status NftTransaction::Commit(int nfnetlink) {
  batch_.Begin(NFNL_MSG_BATCH_END, NetlinkBatch::kNoAck, "nft batch end");
  batch_.Header(GenHeader(AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  return Exchange(nfnetlink, batch_);
}

Status NftTransaction::Check(int nfnetlink) {
  // Without its end message a batch is validated and then aborted (nfnetlink_rcv_batch).
  return Exchange(nfnetlink, batch_);
}

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
  // As many bytes as the prefix has: the rest of the name may be anything.
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

// The key stands from NFT_REG32_00 on.
void NftTransaction::Rule::LookupOrCompare(const std::string& set, std::optional<uint32_t> value) {
  if (!value) return Lookup(set, NFT_REG32_00);
  LookupValue(set, NFT_REG32_00, NFT_REG_1);
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

// Where the headers keep their addresses (RFC 791, RFC 8200).
struct AddressFields {
  uint32_t source, destination, size;
};
constexpr AddressFields kIpv4Fields{12, 16, 4};
constexpr AddressFields kIpv6Fields{8, 24, 16};
constexpr uint32_t kEthernetSource = 6;
constexpr uint32_t kMacSize = 6;
constexpr uint32_t kDestinationPort = 2;  // of TCP, UDP and SCTP

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
  // A concatenation stands in consecutive 4-byte registers: 16 bytes of name, the address, the MAC.
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

NftTransaction::Rule& NftTransaction::Rule::OutIn(const std::string& set) {
  Meta(NFT_META_OIF, NFT_REG_1);
  Lookup(set, NFT_REG_1);
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

NftTransaction::Rule& NftTransaction::Rule::MarkByIn(const std::string& map) {
  Meta(NFT_META_IIF, NFT_REG_1);
  LookupValue(map, NFT_REG_1, NFT_REG_1);
  Expression("meta", [&] {
    batch_->PutBe32(NFTA_META_KEY, NFT_META_MARK);
    batch_->PutBe32(NFTA_META_SREG, NFT_REG_1);
  });
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

void NftTransaction::Rule::BitsSet(uint32_t key, uint32_t mask) {
  Expression("ct", [&] {
    batch_->PutBe32(NFTA_CT_KEY, key);
    batch_->PutBe32(NFTA_CT_DREG, NFT_REG_1);
  });
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&mask), sizeof mask);
  constexpr std::array<uint8_t, 4> kZero{};
  Expression("bitwise", [&] {
    batch_->PutBe32(NFTA_BITWISE_SREG, NFT_REG_1);
    batch_->PutBe32(NFTA_BITWISE_DREG, NFT_REG_1);
    batch_->PutBe32(NFTA_BITWISE_LEN, sizeof mask);
    {
      auto nest = batch_->OpenNest(NFTA_BITWISE_MASK);
      batch_->Put(NFTA_DATA_VALUE, bytes);
    }
    auto nest = batch_->OpenNest(NFTA_BITWISE_XOR);
    batch_->Put(NFTA_DATA_VALUE, kZero);
  });
  Compare(NFT_CMP_NEQ, kZero);
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
  UpdateSet(set, NFT_DYNSET_OP_UPDATE, "limit", [&] {
    batch_->PutBe64(NFTA_LIMIT_RATE, per_second);
    batch_->PutBe64(NFTA_LIMIT_UNIT, 1);
    batch_->PutBe32(NFTA_LIMIT_BURST, burst);
    batch_->PutBe32(NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    batch_->PutBe32(NFTA_LIMIT_FLAGS, 0);
  });
  return *this;
}

NftTransaction::Rule& NftTransaction::Rule::InConnectionsOver(const std::string& set,
                                                              uint32_t connections) {
  UpdateSet(set, NFT_DYNSET_OP_ADD, "connlimit", [&] {
    batch_->PutBe32(NFTA_CONNLIMIT_COUNT, connections);
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

namespace {

ListedElement ParseElement(std::span<const uint8_t> nest) {
  ListedElement element;
  for (const Attribute& part : Attributes(nest)) {
    if (part.type == NFTA_SET_ELEM_EXPIRATION) element.expires_in_ms = part.Be64();
    if (part.type == NFTA_SET_ELEM_KEY) {
      for (const Attribute& value : Attributes(part.bytes)) {
        if (value.type == NFTA_DATA_VALUE) element.key = value.bytes;
      }
    }
    if (part.type == NFTA_SET_ELEM_EXPR) {
      for (const Attribute& expression : Attributes(part.bytes)) {
        if (expression.type != NFTA_EXPR_DATA) continue;
        for (const Attribute& counter : Attributes(expression.bytes)) {
          if (counter.type == NFTA_COUNTER_PACKETS) element.packets = counter.Be64();
        }
      }
    }
  }
  return element;
}

}  // namespace

Status ListElements(int nfnetlink, const std::string& table, const std::string& set,
                    const std::function<void(const ListedElement&)>& on_element) {
  NetlinkBatch batch;
  batch.Begin(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM, NLM_F_DUMP | NetlinkBatch::kNoAck,
              "nft list elements of " + set + " in table inet " + table);
  batch.Header(GenHeader(NFPROTO_INET, 0));
  batch.PutString(NFTA_SET_ELEM_LIST_TABLE, table);
  batch.PutString(NFTA_SET_ELEM_LIST_SET, set);
  return Dump(nfnetlink, batch, [&](const nlmsghdr* message) {
    for (const Attribute& list : Attributes(message, sizeof(nfgenmsg))) {
      if (list.type != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
      for (const Attribute& element : Attributes(list.bytes))
        on_element(ParseElement(element.bytes));
    }
  });
}

}  // namespace atl::netpolicy
