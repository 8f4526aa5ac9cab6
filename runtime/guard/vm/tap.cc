#include "runtime/guard/vm/tap.h"

#include <net/if.h>

#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/neighbour.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <sys/ioctl.h>

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "netpolicy/link/link_messages.h"
#include "netpolicy/link/netlink.h"

namespace atl::guard {
namespace {

using netpolicy::Attribute;
using netpolicy::Attributes;
using netpolicy::NetlinkBatch;

constexpr const char kLink[] = "eth0";
constexpr const char kTap[] = "tap0";
constexpr uint32_t kIngress = TC_H_MAJ(TC_H_INGRESS);

std::string Bytes(const Attribute& attribute) {
  return {reinterpret_cast<const char*>(attribute.bytes.data()), attribute.bytes.size()};
}

Status DumpOf(int socket, uint16_t type, const char* label, const auto& header,
              const std::function<void(const nlmsghdr*)>& each) {
  NetlinkBatch batch;
  batch.Begin(type, NLM_F_DUMP | NetlinkBatch::kNoAck, label);
  batch.Header(header);
  return netpolicy::Dump(socket, batch, each);
}

Status ReadAddresses(int socket, unsigned link, wire::vm::Go* go) {
  return DumpOf(socket, RTM_GETADDR, "RTM_GETADDR dump", ifaddrmsg{}, [&](const nlmsghdr* message) {
    const auto header = netpolicy::HeaderOf<ifaddrmsg>(message);
    if (header.ifa_index != link || header.ifa_scope != RT_SCOPE_UNIVERSE) return;
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type == IFA_ADDRESS) {
        go->addresses.push_back(Bytes(attribute));
      }
    }
  });
}

Status ReadGateways(int socket, uint8_t family, unsigned link, wire::vm::Go* go) {
  rtmsg asked{};
  asked.rtm_family = family;
  return DumpOf(socket, RTM_GETROUTE, "RTM_GETROUTE dump", asked, [&](const nlmsghdr* message) {
    const auto header = netpolicy::HeaderOf<rtmsg>(message);
    if (header.rtm_dst_len != 0 || header.rtm_type != RTN_UNICAST ||
        header.rtm_table != RT_TABLE_MAIN) {
      return;
    }
    std::string gateway;
    bool ours = false;
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type == RTA_GATEWAY) gateway = Bytes(attribute);
      if (attribute.type == RTA_OIF) ours = attribute.U32() == link;
    }
    if (ours && !gateway.empty()) go->gateways.push_back(gateway);
  });
}

Status ReadNeighbours(int socket, unsigned link, wire::vm::Go* go) {
  return DumpOf(socket, RTM_GETNEIGH, "RTM_GETNEIGH dump", ndmsg{}, [&](const nlmsghdr* message) {
    const auto header = netpolicy::HeaderOf<ndmsg>(message);
    if (header.ndm_ifindex != static_cast<int>(link) || (header.ndm_state & NUD_PERMANENT) == 0) {
      return;
    }
    wire::vm::Neighbour neighbour;
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type == NDA_DST) neighbour.address = Bytes(attribute);
      if (attribute.type == NDA_LLADDR) neighbour.mac = Bytes(attribute);
    }
    if (!neighbour.address.empty() && neighbour.mac.size() == ETH_ALEN) {
      go->neighbours.push_back(std::move(neighbour));
    }
  });
}

tcmsg TcHeader(unsigned index) {
  tcmsg header{};
  header.tcm_ifindex = static_cast<int>(index);
  return header;
}

template <typename T>
std::span<const uint8_t> AsBytes(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

// Everything that arrives on `from` leaves by `to`, before any protocol of this kernel sees it.
void AddRedirect(NetlinkBatch& batch, unsigned from, unsigned to, const std::string& label) {
  batch.Begin(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, "RTM_NEWQDISC ingress on " + label);
  tcmsg queue = TcHeader(from);
  queue.tcm_handle = kIngress;
  queue.tcm_parent = TC_H_INGRESS;
  batch.Header(queue);
  batch.PutString(TCA_KIND, "ingress");

  batch.Begin(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, "RTM_NEWTFILTER " + label);
  tcmsg filter = TcHeader(from);
  filter.tcm_parent = kIngress;
  filter.tcm_info = TC_H_MAKE(1U << 16, htons(ETH_P_ALL));
  batch.Header(filter);
  batch.PutString(TCA_KIND, "u32");
  auto options = batch.OpenNest(TCA_OPTIONS);
  // One key, all of whose bytes are 0, as its mask: it matches every packet.
  std::array<uint8_t, sizeof(tc_u32_sel) + sizeof(tc_u32_key)> selector{};
  tc_u32_sel head{};
  head.flags = TC_U32_TERMINAL;
  head.nkeys = 1;
  std::memcpy(selector.data(), &head, sizeof head);
  batch.Put(TCA_U32_SEL, selector);
  auto actions = batch.OpenNest(TCA_U32_ACT);
  auto first = batch.OpenNest(1);
  batch.PutString(TCA_ACT_KIND, "mirred");
  auto action = batch.OpenNest(TCA_ACT_OPTIONS);
  tc_mirred redirect{};
  redirect.action = TC_ACT_STOLEN;
  redirect.eaction = TCA_EGRESS_REDIR;
  redirect.ifindex = to;
  batch.Put(TCA_MIRRED_PARMS, AsBytes(redirect));
}

}  // namespace

Result<bool> ReadLink(wire::vm::Go* go) {
  ATOLL_ASSIGN(const UniqueFd socket, netpolicy::OpenNetlink(NETLINK_ROUTE));
  unsigned link = 0;
  ATOLL_TRY(DumpOf(
      socket.get(), RTM_GETLINK, "RTM_GETLINK dump", ifinfomsg{}, [&](const nlmsghdr* message) {
        std::string name, mac;
        uint32_t mtu = 0;
        for (const Attribute& attribute : Attributes(message, sizeof(ifinfomsg))) {
          if (attribute.type == IFLA_IFNAME) name = attribute.Text();
          if (attribute.type == IFLA_ADDRESS) mac = Bytes(attribute);
          if (attribute.type == IFLA_MTU) mtu = attribute.U32();
        }
        if (name != kLink || mac.size() != ETH_ALEN) return;
        link = static_cast<unsigned>(netpolicy::HeaderOf<ifinfomsg>(message).ifi_index);
        go->mac = mac;
        go->mtu = mtu;
      }));
  if (link == 0) return false;
  ATOLL_TRY(ReadAddresses(socket.get(), link, go));
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    ATOLL_TRY(ReadGateways(socket.get(), family, link, go));
  }
  ATOLL_TRY(ReadNeighbours(socket.get(), link, go));
  return true;
}

Status MakeTap(int tun) {
  ifreq request{};
  std::strncpy(request.ifr_name, kTap, sizeof request.ifr_name - 1);
  // The header carries partial checksums and sizes of segments, without which TCP does not survive
  // the way from a veth.
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(tun, TUNSETIFF, &request) != 0) return FailSys("TUNSETIFF");
  return {};
}

Status JoinLink(uint32_t mtu) {
  const unsigned tap = ::if_nametoindex(kTap);
  const unsigned link = ::if_nametoindex(kLink);
  if (tap == 0 || link == 0) return FailSys("if_nametoindex");
  ATOLL_ASSIGN(const UniqueFd socket, netpolicy::OpenNetlink(NETLINK_ROUTE));
  NetlinkBatch batch;
  // The tap has no address of its own, of any kind, and is up before anything is sent to it.
  const auto index = static_cast<int>(tap);
  netpolicy::AddNoLinkLocal(batch, index, kTap);
  batch.Begin(RTM_NEWLINK, 0, std::string("RTM_NEWLINK ") + kTap + " mtu");
  batch.Header(netpolicy::LinkHeader(index, 0, 0));
  batch.PutU32(IFLA_MTU, mtu);
  netpolicy::AddLinkUp(batch, index, kTap);
  AddRedirect(batch, link, tap, std::string(kLink) + " to " + kTap);
  AddRedirect(batch, tap, link, std::string(kTap) + " to " + kLink);
  return netpolicy::Exchange(socket.get(), batch);
}

}  // namespace atl::guard
