#include "netpolicy/conntrack.h"

#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>

#include "netpolicy/addresses.h"
#include "netpolicy/netlink.h"

namespace atl::netpolicy {
namespace {

// An entry that is to go.
struct Doomed {
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

// The flow that a CTA_TUPLE_ORIG describes, if a slot began it.
std::optional<Flow> ParseTuple(uint32_t instance, std::span<const uint8_t> tuple) {
  Flow flow;
  for (const Attribute& part : Attributes(tuple)) {
    for (const Attribute& field : Attributes(part.bytes)) {
      if (part.type == CTA_TUPLE_IP) {
        if (field.type == CTA_IP_V4_SRC || field.type == CTA_IP_V6_SRC) {
          flow.slot = SlotOfAddress(instance, field.bytes).value_or(0);
        }
        const bool whole = field.bytes.size() == (field.type == CTA_IP_V6_DST ? 16U : 4U);
        if ((field.type == CTA_IP_V4_DST || field.type == CTA_IP_V6_DST) && whole) {
          flow.destination = IpAddress::FromBytes(field.bytes);
        }
      }
      if (part.type != CTA_TUPLE_PROTO || field.bytes.empty()) continue;
      if (field.type == CTA_PROTO_NUM) flow.protocol = field.bytes[0];
      if (field.type == CTA_PROTO_DST_PORT && field.bytes.size() == 2) {
        flow.port = static_cast<uint16_t>(field.bytes[0] << 8 | field.bytes[1]);
      }
    }
  }
  if (flow.slot == 0) return std::nullopt;
  return flow;
}

}  // namespace

Result<size_t> CutFlows(int nfnetlink, uint32_t instance,
                        const std::function<bool(const Flow&)>& cut) {
  // Everything is dumped and chosen from here. The kernel's own filters are of no use: flushing by
  // one came with 6.8, and the one for IPv6 sources finds nothing, 6.18 included.
  NetlinkBatch dump;
  Begin(dump, IPCTNL_MSG_CT_GET, NLM_F_DUMP | NetlinkBatch::kNoAck, AF_UNSPEC, "conntrack dump");
  std::vector<Doomed> doomed;
  ATOLL_TRY(Dump(nfnetlink, dump, [&](const nlmsghdr* message) {
    nfgenmsg header;
    std::memcpy(&header, NLMSG_DATA(message), sizeof header);
    std::optional<Flow> flow;
    std::span<const uint8_t> tuple;
    uint32_t status = 0;
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type == CTA_STATUS) status = attribute.Be32();
      if (attribute.type != CTA_TUPLE_ORIG) continue;
      tuple = attribute.bytes;
      flow = ParseTuple(instance, tuple);
    }
    if (!flow) return;
    flow->translated = (status & IPS_DST_NAT) != 0;
    if (cut(*flow)) doomed.push_back({header.nfgen_family, {tuple.begin(), tuple.end()}});
  }));
  for (const Doomed& flow : doomed) {
    NetlinkBatch remove;
    Begin(remove, IPCTNL_MSG_CT_DELETE, 0, flow.family, "conntrack delete");
    remove.Put(CTA_TUPLE_ORIG | NLA_F_NESTED, flow.tuple);
    // An entry that timed out meanwhile is gone as well.
    Status done = Exchange(nfnetlink, remove);
    if (!done && done.error().error_number() != ENOENT) return Fail(std::move(done).error());
  }
  return doomed.size();
}

}  // namespace atl::netpolicy
