#include "netpolicy/conntrack.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "netpolicy/addresses.h"
#include "netpolicy/netlink.h"

namespace atl::netpolicy {
namespace {

struct Flow {
  uint8_t family;
  std::vector<uint8_t> tuple;  // the attributes of CTA_TUPLE_ORIG
};

void Begin(NetlinkBatch& batch, uint16_t type, uint16_t flags, uint8_t family, const char* label) {
  batch.Begin(static_cast<uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | type), flags, label);
  nfgenmsg header{};
  header.nfgen_family = family;
  header.version = NFNETLINK_V0;
  batch.Header(header);
}

// The slot that an address of ours belongs to.
std::optional<uint32_t> SlotOf(uint32_t instance, std::span<const uint8_t> address) {
  if (address.size() != 4 && address.size() != 16) return std::nullopt;
  const uint32_t slot =
      static_cast<uint32_t>(address[address.size() - 2]) << 8 | address[address.size() - 1];
  if (slot < 1 || slot > kMaxSlot) return std::nullopt;
  const auto is = [&](const auto& own) {
    return std::equal(address.begin(), address.end(), own.begin(), own.end());
  };
  if (is(SlotIpv4(instance, slot)) || is(SlotIpv6(instance, slot))) return slot;
  return std::nullopt;
}

std::optional<uint32_t> SourceSlot(uint32_t instance, std::span<const uint8_t> tuple) {
  for (const Attribute& part : Attributes(tuple)) {
    if (part.type != CTA_TUPLE_IP) continue;
    for (const Attribute& address : Attributes(part.bytes)) {
      if (address.type == CTA_IP_V4_SRC || address.type == CTA_IP_V6_SRC) {
        return SlotOf(instance, address.bytes);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<size_t> CutFlows(int nfnetlink, uint32_t instance, const std::vector<uint32_t>& slots) {
  // Everything is dumped and chosen from here. The kernel's own filters are of no use: flushing by
  // one came with 6.8, and the one for IPv6 sources finds nothing, 6.18 included.
  NetlinkBatch dump;
  Begin(dump, IPCTNL_MSG_CT_GET, NLM_F_DUMP | NetlinkBatch::kNoAck, AF_UNSPEC, "conntrack dump");
  std::vector<Flow> flows;
  ATOLL_TRY(Dump(nfnetlink, dump, [&](const nlmsghdr* message) {
    nfgenmsg header;
    std::memcpy(&header, NLMSG_DATA(message), sizeof header);
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type != CTA_TUPLE_ORIG) continue;
      const auto slot = SourceSlot(instance, attribute.bytes);
      if (!slot || !std::binary_search(slots.begin(), slots.end(), *slot)) continue;
      flows.push_back({header.nfgen_family, {attribute.bytes.begin(), attribute.bytes.end()}});
    }
  }));
  for (const Flow& flow : flows) {
    NetlinkBatch remove;
    Begin(remove, IPCTNL_MSG_CT_DELETE, 0, flow.family, "conntrack delete");
    remove.Put(CTA_TUPLE_ORIG | NLA_F_NESTED, flow.tuple);
    // An entry that timed out meanwhile is gone as well.
    Status done = Exchange(nfnetlink, remove);
    if (!done && done.error().error_number() != ENOENT) return Fail(std::move(done).error());
  }
  return flows.size();
}

}  // namespace atl::netpolicy
