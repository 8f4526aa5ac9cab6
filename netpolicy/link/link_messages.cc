#include "netpolicy/link/link_messages.h"

// Included first, because linux/if.h then omits the definitions that both headers have.
#include <net/if.h>

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <sys/socket.h>

namespace atl::netpolicy {
namespace {

static_assert(kBirthFlags == IFF_NOARP);

constexpr uint32_t kLocalRouteMetric = 1024;

rtmsg RouteHeader(bool ipv6, unsigned char prefix, unsigned char scope, unsigned flags) {
  rtmsg header{};
  header.rtm_family = ipv6 ? AF_INET6 : AF_INET;
  header.rtm_dst_len = prefix;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_scope = scope;
  header.rtm_type = RTN_UNICAST;
  header.rtm_flags = flags;
  return header;
}

}  // namespace

ifinfomsg LinkHeader(int index, unsigned flags, unsigned change) {
  ifinfomsg header{};
  header.ifi_family = AF_UNSPEC;
  header.ifi_index = index;
  header.ifi_flags = flags;
  header.ifi_change = change;
  return header;
}

void AddNoLinkLocal(NetlinkBatch& batch, int index, const std::string& name) {
  batch.Begin(RTM_NEWLINK, 0, "RTM_NEWLINK " + name + " addrgenmode none");
  batch.Header(LinkHeader(index, 0, 0));
  auto spec = batch.OpenNest(IFLA_AF_SPEC);
  auto inet6 = batch.OpenNest(AF_INET6);
  batch.PutU8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
}

void AddLinkUp(NetlinkBatch& batch, int index, const std::string& name) {
  batch.Begin(RTM_NEWLINK, 0, "RTM_NEWLINK " + name + " up");
  batch.Header(LinkHeader(index, IFF_UP, IFF_UP));
}

void AddAddress(NetlinkBatch& batch, uint16_t type, int index, std::span<const uint8_t> address,
                const std::string& label) {
  const bool ipv6 = address.size() == 16;
  const uint16_t create = type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_REPLACE : 0;
  batch.Begin(type, create, label);
  ifaddrmsg header{};
  header.ifa_family = ipv6 ? AF_INET6 : AF_INET;
  header.ifa_prefixlen = ipv6 ? 128 : 32;
  // Duplicate address detection would make the address unusable for a second.
  header.ifa_flags = ipv6 ? IFA_F_NODAD : 0;
  header.ifa_scope = RT_SCOPE_UNIVERSE;
  header.ifa_index = static_cast<uint32_t>(index);
  batch.Header(header);
  batch.Put(IFA_LOCAL, address);
  batch.Put(IFA_ADDRESS, address);
}

void AddNeighbour(NetlinkBatch& batch, int index, std::span<const uint8_t> address,
                  std::span<const uint8_t> mac, const std::string& label) {
  batch.Begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, label);
  ndmsg header{};
  header.ndm_family = address.size() == 16 ? AF_INET6 : AF_INET;
  header.ndm_ifindex = index;
  header.ndm_state = NUD_PERMANENT;
  batch.Header(header);
  batch.Put(NDA_DST, address);
  batch.Put(NDA_LLADDR, mac);
}

void AddDefaultRoute(NetlinkBatch& batch, int index, std::span<const uint8_t> gateway,
                     const std::string& label) {
  batch.Begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, label);
  batch.Header(RouteHeader(gateway.size() == 16, 0, RT_SCOPE_UNIVERSE, RTNH_F_ONLINK));
  batch.Put(RTA_GATEWAY, gateway);
  batch.PutU32(RTA_OIF, static_cast<uint32_t>(index));
}

void AddHostRoute(NetlinkBatch& batch, int index, std::span<const uint8_t> address,
                  const std::string& label) {
  const bool ipv6 = address.size() == 16;
  batch.Begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, label);
  batch.Header(RouteHeader(ipv6, ipv6 ? 128 : 32, ipv6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK, 0));
  batch.Put(RTA_DST, address);
  batch.PutU32(RTA_OIF, static_cast<uint32_t>(index));
}

void AddLocalRoute(NetlinkBatch& batch, uint16_t type, int index, std::span<const uint8_t> address,
                   const std::string& label) {
  const uint16_t create = type == RTM_NEWROUTE ? NLM_F_CREATE | NLM_F_REPLACE : 0;
  batch.Begin(type, create, label);
  rtmsg header = RouteHeader(true, 128, RT_SCOPE_UNIVERSE, 0);
  header.rtm_table = RT_TABLE_LOCAL;
  header.rtm_type = RTN_LOCAL;
  batch.Header(header);
  batch.Put(RTA_DST, address);
  batch.PutU32(RTA_OIF, static_cast<uint32_t>(index));
  // The kernel's own route has metric 0, so only ours is replaced or removed.
  batch.PutU32(RTA_PRIORITY, kLocalRouteMetric);
}

}  // namespace atl::netpolicy
