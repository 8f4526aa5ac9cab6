#include "netpolicy/rules/conntrack.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "netpolicy/address/addresses.h"
#include "netpolicy/link/netlink.h"

namespace atl::netpolicy {
namespace {

// An entry to be deleted.
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

// One direction of a flow.
struct Tuple {
  std::span<const uint8_t> source, destination;  // borrowed
  uint8_t protocol = 0;
  uint16_t port = 0;  // destination port
};

Tuple ParseTuple(std::span<const uint8_t> bytes) {
  Tuple tuple;
  for (const Attribute& part : Attributes(bytes)) {
    for (const Attribute& field : Attributes(part.bytes)) {
      if (part.type == CTA_TUPLE_IP) {
        if (field.type == CTA_IP_V4_SRC || field.type == CTA_IP_V6_SRC) tuple.source = field.bytes;
        if (field.type == CTA_IP_V4_DST || field.type == CTA_IP_V6_DST) {
          tuple.destination = field.bytes;
        }
      }
      if (part.type != CTA_TUPLE_PROTO || field.bytes.empty()) continue;
      if (field.type == CTA_PROTO_NUM) tuple.protocol = field.bytes[0];
      if (field.type == CTA_PROTO_DST_PORT && field.bytes.size() == 2) {
        tuple.port = static_cast<uint16_t>(field.bytes[0] << 8 | field.bytes[1]);
      }
    }
  }
  return tuple;
}

bool IsGateway(uint32_t instance, std::span<const uint8_t> address) {
  return std::ranges::equal(address, GatewayIpv4(instance)) ||
         std::ranges::equal(address, GatewayIpv6(instance));
}

// Returns the flow if a slot began it.
std::optional<Flow> FlowOf(uint32_t instance, const Tuple& original, const Tuple& reply) {
  const auto slot = SlotOfAddress(instance, original.source);
  if (!slot) return std::nullopt;
  Flow flow{.slot = *slot, .destination = {}, .protocol = original.protocol, .port = original.port};
  const size_t size = original.destination.size();
  if (size == 4 || size == 16) flow.destination = IpAddress::FromBytes(original.destination);
  // A reply from the gateway to another destination means that the flow was redirected. Other
  // programs' tables translate destinations too, which has no meaning for our policy.
  flow.to_gateway = IsGateway(instance, reply.source) && !IsGateway(instance, original.destination);
  return flow;
}

}  // namespace

Result<size_t> CutFlows(int nfnetlink, uint32_t instance,
                        const std::function<bool(const Flow&)>& cut) {
  // All entries are dumped and selected here, because the kernel's own filters do not suffice:
  // flushing by a filter exists since 6.8, and the filter for IPv6 sources finds nothing, even in
  // 6.18.
  NetlinkBatch dump;
  Begin(dump, IPCTNL_MSG_CT_GET, NLM_F_DUMP | NetlinkBatch::kNoAck, AF_UNSPEC, "conntrack dump");
  std::vector<Doomed> doomed;
  ATOLL_TRY(Dump(nfnetlink, dump, [&](const nlmsghdr* message) {
    const auto header = HeaderOf<nfgenmsg>(message);
    std::span<const uint8_t> original, reply;
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type == CTA_TUPLE_ORIG) original = attribute.bytes;
      if (attribute.type == CTA_TUPLE_REPLY) reply = attribute.bytes;
    }
    const auto flow = FlowOf(instance, ParseTuple(original), ParseTuple(reply));
    if (!flow || !cut(*flow)) return;
    doomed.push_back({header.nfgen_family, {original.begin(), original.end()}});
  }));
  for (const Doomed& flow : doomed) {
    NetlinkBatch remove;
    Begin(remove, IPCTNL_MSG_CT_DELETE, 0, flow.family, "conntrack delete");
    remove.Put(CTA_TUPLE_ORIG | NLA_F_NESTED, flow.tuple);
    // An entry that has timed out meanwhile is gone as well.
    Status done = Exchange(nfnetlink, remove);
    if (!done && done.error().error_number() != ENOENT) return Fail(std::move(done).error());
  }
  return doomed.size();
}

}  // namespace atl::netpolicy
