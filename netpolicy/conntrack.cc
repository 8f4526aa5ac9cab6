#include "netpolicy/conntrack.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "netpolicy/netlink.h"

namespace atl::netpolicy {
namespace {

// "Compare the source address of the original direction" (nf_internals.h, since 5.8).
constexpr uint32_t kFilterSource = 1;

void Begin(NetlinkBatch& batch, uint16_t type, uint16_t flags, bool ipv6, const char* label) {
  batch.Begin(static_cast<uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | type), flags, label);
  nfgenmsg header{};
  header.nfgen_family = ipv6 ? AF_INET6 : AF_INET;
  header.version = NFNETLINK_V0;
  batch.Header(header);
}

}  // namespace

Result<size_t> CutFlows(int nfnetlink, std::span<const uint8_t> source) {
  const bool ipv6 = source.size() == 16;
  NetlinkBatch dump;
  Begin(dump, IPCTNL_MSG_CT_GET, NLM_F_DUMP | NetlinkBatch::kNoAck, ipv6, "conntrack dump");
  {
    auto tuple = dump.OpenNest(CTA_TUPLE_ORIG);
    auto address = dump.OpenNest(CTA_TUPLE_IP);
    dump.Put(ipv6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC, source);
  }
  {
    auto filter = dump.OpenNest(CTA_FILTER);
    dump.PutU32(CTA_FILTER_ORIG_FLAGS, kFilterSource);
    dump.PutU32(CTA_FILTER_REPLY_FLAGS, 0);
  }
  // Dump and delete by tuple rather than one flush by filter: the kernel knows that since 6.8 only.
  std::vector<std::vector<uint8_t>> tuples;
  ATOLL_TRY(Dump(nfnetlink, dump, [&](const nlmsghdr* message) {
    for (const Attribute& attribute : Attributes(message, sizeof(nfgenmsg))) {
      if (attribute.type != CTA_TUPLE_ORIG) continue;
      tuples.emplace_back(attribute.bytes.begin(), attribute.bytes.end());
    }
  }));
  for (const std::vector<uint8_t>& tuple : tuples) {
    NetlinkBatch remove;
    Begin(remove, IPCTNL_MSG_CT_DELETE, 0, ipv6, "conntrack delete");
    remove.Put(CTA_TUPLE_ORIG | NLA_F_NESTED, tuple);
    // An entry that timed out meanwhile is gone as well.
    Status done = Exchange(nfnetlink, remove);
    if (!done && done.error().error_number() != ENOENT) return Fail(std::move(done).error());
  }
  return tuples.size();
}

}  // namespace atl::netpolicy
