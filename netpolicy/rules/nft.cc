#include "netpolicy/rules/nft.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <array>

namespace atl::netpolicy {
namespace {

// The elements of a message are one attribute of at most 64 KiB.
constexpr size_t kElementsPerMessage = 256;

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

void NftTransaction::AddOwnedTable() {
  AddTable();
  batch_.PutBe32(NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
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

void NftTransaction::AddElement(const std::string& set, std::span<const uint8_t> key) {
  const Element element{.key = {key.begin(), key.end()}};
  AddElements(set, {&element, 1});
}

void NftTransaction::DeleteElement(const std::string& set, std::span<const uint8_t> key) {
  const Element element{.key = {key.begin(), key.end()}};
  DeleteElements(set, {&element, 1});
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

NftTransaction::Rule NftTransaction::AddRule(const std::string& chain, std::string_view comment) {
  Begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND,
        "nft add rule \"" + std::string(comment) + "\" to " + chain);
  batch_.PutString(NFTA_RULE_TABLE, table_);
  batch_.PutString(NFTA_RULE_CHAIN, chain);
  return Rule(&batch_, comment);
}

Status NftTransaction::Commit(int nfnetlink) {
  batch_.AckLastOnly();
  batch_.Begin(NFNL_MSG_BATCH_END, NetlinkBatch::kNoAck, "nft batch end");
  batch_.Header(GenHeader(AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  return Exchange(nfnetlink, batch_);
}

Status NftTransaction::Check(int nfnetlink) {
  // The kernel validates a batch without its end message and then aborts it (nfnetlink_rcv_batch).
  return Exchange(nfnetlink, batch_);
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
