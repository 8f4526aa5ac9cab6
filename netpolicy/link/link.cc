#include "netpolicy/link/link.h"

// Included first, because linux/if.h then omits the definitions that both headers have.
#include <net/if.h>

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "netpolicy/address/addresses.h"
#include "netpolicy/link/link_messages.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

namespace atl::netpolicy {
namespace {

// Appends the attributes that both ends of the pair share. One queue each: by default veth makes
// one for each possible CPU, which costs memory and time and gives a sandbox nothing.
void PutLinkAttributes(NetlinkBatch& batch, const std::string& name, const MacBytes& mac,
                       const SlotLink& link) {
  batch.PutString(IFLA_IFNAME, name);
  batch.Put(IFLA_ADDRESS, mac);
  batch.PutU32(IFLA_MTU, link.mtu);
  batch.PutU32(IFLA_NUM_TX_QUEUES, 1);
  batch.PutU32(IFLA_NUM_RX_QUEUES, 1);
}

void AddVeth(NetlinkBatch& batch, const SlotLink& link, int host_netns) {
  const std::string host_name = LinkName(link.instance, link.slot);
  // Without IFF_UP: a veth cannot be brought up before it has its peer, and must not be up before
  // link-local addresses are disabled.
  batch.Begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL,
              "RTM_NEWLINK eth0, veth with peer " + host_name);
  batch.Header(LinkHeader(kInsideIfindex, kBirthFlags, kBirthFlags));
  PutLinkAttributes(batch, kInsideLink, InsideMac(link.instance, link.slot), link);
  auto info = batch.OpenNest(IFLA_LINKINFO);
  batch.PutString(IFLA_INFO_KIND, "veth");
  auto data = batch.OpenNest(IFLA_INFO_DATA);
  auto peer = batch.OpenNest(VETH_INFO_PEER);
  batch.PutRaw(LinkHeader(HostIfindex(link.instance, link.slot), kBirthFlags, kBirthFlags));
  PutLinkAttributes(batch, host_name, HostMac(link.instance, link.slot), link);
  batch.PutU32(IFLA_NET_NS_FD, static_cast<uint32_t>(host_netns));
}

template <typename Bytes>
void AddInsideFamily(NetlinkBatch& batch, const Bytes& address, const Bytes& gateway,
                     const MacBytes& host_mac) {
  const std::string via = ToString(gateway);
  AddAddress(batch, RTM_NEWADDR, kInsideIfindex, address,
             "RTM_NEWADDR " + ToString(address) + " dev eth0");
  AddNeighbour(batch, kInsideIfindex, gateway, host_mac, "RTM_NEWNEIGH " + via + " dev eth0");
  AddDefaultRoute(batch, kInsideIfindex, gateway, "RTM_NEWROUTE default via " + via + " dev eth0");
}

template <typename Bytes>
void AddHostFamily(NetlinkBatch& batch, int index, const Bytes& address, const MacBytes& mac,
                   const std::string& name) {
  const std::string to = ToString(address) + " dev " + name;
  AddNeighbour(batch, index, address, mac, "RTM_NEWNEIGH " + to);
  AddHostRoute(batch, index, address, "RTM_NEWROUTE " + to);
}

// Returns true if the link can send. The operational state becomes "up" in the same critical
// section in which the queues are switched on (linkwatch_do_dev); the carrier flag is set earlier.
Result<bool> CanSend(int socket, int index, const std::string& name) {
  NetlinkBatch batch;
  batch.Begin(RTM_GETLINK, 0, "RTM_GETLINK " + name);
  batch.Header(LinkHeader(index, 0, 0));
  batch.PutU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  bool up = false;
  ATOLL_TRY(Exchange(socket, batch, [&](const nlmsghdr* message) {
    for (const Attribute& attribute : Attributes(message, sizeof(ifinfomsg))) {
      if (attribute.type != IFLA_OPERSTATE || attribute.bytes.empty()) continue;
      up = attribute.bytes[0] == IF_OPER_UP;
    }
  }));
  return up;
}

// "atl" and the instance, far from the numbers that people choose for link groups.
uint32_t LinkGroup(uint32_t instance) {
  return 0x61746c00U + instance;
}

}  // namespace

void AddInsideMessages(NetlinkBatch& batch, const SlotLink& link, int host_netns) {
  AddVeth(batch, link, host_netns);
  AddLinkUp(batch, kLoIfindex, "lo");
  if (link.ipv6) AddNoLinkLocal(batch, kInsideIfindex, kInsideLink);
  AddLinkUp(batch, kInsideIfindex, kInsideLink);
  const MacBytes host_mac = HostMac(link.instance, link.slot);
  AddInsideFamily(batch, SlotIpv4(link.instance, link.slot), GatewayIpv4(link.instance), host_mac);
  if (link.ipv6) {
    AddInsideFamily(batch, SlotIpv6(link.instance, link.slot), GatewayIpv6(link.instance),
                    host_mac);
    const Ipv6Bytes address = SlotIpv6(link.instance, link.slot);
    AddLocalRoute(batch, RTM_NEWROUTE, kInsideIfindex, address,
                  "RTM_NEWROUTE local " + ToString(address) + " dev eth0");
  }
}

void AddHostMessages(NetlinkBatch& batch, const SlotLink& link) {
  const int index = HostIfindex(link.instance, link.slot);
  const std::string name = LinkName(link.instance, link.slot);
  const MacBytes mac = InsideMac(link.instance, link.slot);
  if (link.ipv6) AddNoLinkLocal(batch, index, name);
  AddLinkUp(batch, index, name);
  AddHostFamily(batch, index, SlotIpv4(link.instance, link.slot), mac, name);
  if (link.ipv6) AddHostFamily(batch, index, SlotIpv6(link.instance, link.slot), mac, name);
}

Status AwaitCarrier(int socket, int index, const std::string& name, int64_t limit_us) {
  ATOLL_ASSIGN(bool able, CanSend(socket, index, name));
  if (able) return {};
  // The kernel reports every change of a link to this group. It is joined before the next query, so
  // that no change falls between the query and the wait.
  const int group = RTNLGRP_LINK;
  if (::setsockopt(socket, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
    return FailSys("setsockopt NETLINK_ADD_MEMBERSHIP RTNLGRP_LINK");
  }
  const Cleanup leave(
      [&] { ::setsockopt(socket, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof group); });
  const int64_t deadline = SystemClock().BootMicros() + limit_us;
  for (;;) {
    ATOLL_ASSIGN(able, CanSend(socket, index, name));
    if (able) return {};
    const int64_t left_ms = (deadline - SystemClock().BootMicros()) / 1000;
    pollfd readable{socket, POLLIN, 0};
    if (left_ms <= 0 || ::poll(&readable, 1, static_cast<int>(left_ms)) == 0) {
      return Fail(Code::kUnavailable, "link " + name + ": no carrier");
    }
    // It does not matter which link changed: the next query tells.
    char event;
    while (::recv(socket, &event, sizeof event, MSG_DONTWAIT) >= 0 || errno == ENOBUFS) continue;
  }
}

void AddGatewayMessages(NetlinkBatch& batch, uint32_t instance, bool ipv6) {
  AddLinkUp(batch, kLoIfindex, "lo");
  const auto add = [&](const auto& address) {
    AddAddress(batch, RTM_NEWADDR, kLoIfindex, address,
               "RTM_NEWADDR " + ToString(address) + " dev lo");
  };
  add(GatewayIpv4(instance));
  if (!ipv6) return;
  const Ipv6Bytes gateway = GatewayIpv6(instance);
  add(gateway);
  AddLocalRoute(batch, RTM_NEWROUTE, kLoIfindex, gateway,
                "RTM_NEWROUTE local " + ToString(gateway) + " dev lo");
}

void AddGatewayRemoval(NetlinkBatch& batch, uint32_t instance, bool ipv6) {
  const auto remove = [&](const auto& address) {
    AddAddress(batch, RTM_DELADDR, kLoIfindex, address,
               "RTM_DELADDR " + ToString(address) + " dev lo");
  };
  remove(GatewayIpv4(instance));
  if (!ipv6) return;
  const Ipv6Bytes gateway = GatewayIpv6(instance);
  AddLocalRoute(batch, RTM_DELROUTE, kLoIfindex, gateway,
                "RTM_DELROUTE local " + ToString(gateway) + " dev lo");
  remove(gateway);
}

void AddLinkDeletion(NetlinkBatch& batch, const std::string& name) {
  batch.Begin(RTM_DELLINK, 0, "RTM_DELLINK " + name);
  batch.Header(LinkHeader(0, 0, 0));
  batch.PutString(IFLA_IFNAME, name);
}

Status DeleteLinks(int socket, uint32_t instance, const std::vector<std::string>& names) {
  // Answers queue up in the socket's buffer, so the batches are small.
  constexpr size_t kAtOnce = 64;
  for (size_t begin = 0; begin < names.size(); begin += kAtOnce) {
    NetlinkBatch batch;
    for (size_t i = begin; i < std::min(begin + kAtOnce, names.size()); ++i) {
      batch.Begin(RTM_NEWLINK, 0, "RTM_NEWLINK " + names[i] + " group");
      batch.Header(LinkHeader(0, 0, 0));
      batch.PutString(IFLA_IFNAME, names[i]);
      batch.PutU32(IFLA_GROUP, LinkGroup(instance));
    }
    // A link that disappeared by itself is fine.
    if (const Status moved = Exchange(socket, batch);
        !moved && moved.error().error_number() != ENODEV) {
      return moved;
    }
  }
  if (names.empty()) return {};
  NetlinkBatch batch;
  batch.Begin(RTM_DELLINK, 0, "RTM_DELLINK of " + std::to_string(names.size()) + " links");
  batch.Header(LinkHeader(0, 0, 0));
  batch.PutU32(IFLA_GROUP, LinkGroup(instance));
  const Status deleted = Exchange(socket, batch);
  if (!deleted && deleted.error().error_number() != ENODEV) return deleted;
  return {};
}

Result<std::vector<uint32_t>> ListSlotLinks(int socket, uint32_t instance) {
  NetlinkBatch batch;
  batch.Begin(RTM_GETLINK, NLM_F_DUMP | NetlinkBatch::kNoAck, "RTM_GETLINK dump");
  batch.Header(LinkHeader(0, 0, 0));
  batch.PutU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  std::vector<uint32_t> slots;
  ATOLL_TRY(Dump(socket, batch, [&](const nlmsghdr* message) {
    for (const Attribute& attribute : Attributes(message, sizeof(ifinfomsg))) {
      if (attribute.type != IFLA_IFNAME) continue;
      if (const auto slot = SlotOfLink(instance, attribute.Text())) slots.push_back(*slot);
    }
  }));
  return slots;
}

Status LimitRate(int socket, int index, uint64_t bytes_per_second) {
  NetlinkBatch batch;
  batch.Begin(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE,
              "RTM_NEWQDISC tbf on index " + std::to_string(index));
  tcmsg header{};
  header.tcm_family = AF_UNSPEC;
  header.tcm_ifindex = index;
  header.tcm_parent = TC_H_ROOT;
  header.tcm_handle = 1U << 16;
  batch.Header(header);
  batch.PutString(TCA_KIND, "tbf");
  // Allows a burst of 50 ms, and at least one packet of the largest size of a veth. The same amount
  // may be queued.
  const uint64_t burst = std::clamp<uint64_t>(bytes_per_second / 20, 64 << 10, 64 << 20);
  tc_tbf_qopt tbf{};
  tbf.rate.linklayer = TC_LINKLAYER_ETHERNET;  // no rate table is needed
  tbf.rate.rate = static_cast<uint32_t>(std::min<uint64_t>(bytes_per_second, UINT32_MAX));
  tbf.limit = static_cast<uint32_t>(2 * burst);
  {
    auto options = batch.OpenNest(TCA_OPTIONS);
    batch.Put(TCA_TBF_PARMS, {reinterpret_cast<const uint8_t*>(&tbf), sizeof tbf});
    if (bytes_per_second > UINT32_MAX) {
      batch.Put(TCA_TBF_RATE64,
                {reinterpret_cast<const uint8_t*>(&bytes_per_second), sizeof bytes_per_second});
    }
    batch.PutU32(TCA_TBF_BURST, static_cast<uint32_t>(burst));
  }
  return Exchange(socket, batch);
}

Result<LinkCounters> ReadLinkCounters(int socket, int index) {
  NetlinkBatch batch;
  batch.Begin(RTM_GETLINK, 0, "RTM_GETLINK index " + std::to_string(index));
  batch.Header(LinkHeader(index, 0, 0));
  LinkCounters counters;
  ATOLL_TRY(Exchange(socket, batch, [&](const nlmsghdr* message) {
    for (const Attribute& attribute : Attributes(message, sizeof(ifinfomsg))) {
      rtnl_link_stats64 stats{};
      if (attribute.type != IFLA_STATS64) continue;
      std::memcpy(&stats, attribute.bytes.data(), std::min(attribute.bytes.size(), sizeof stats));
      counters = {stats.rx_bytes, stats.tx_bytes, stats.rx_packets, stats.tx_packets};
    }
  }));
  return counters;
}

Result<std::map<uint32_t, LinkCounters>> ReadSlotCounters(int socket, uint32_t instance) {
  NetlinkBatch batch;
  batch.Begin(RTM_GETLINK, NLM_F_DUMP | NetlinkBatch::kNoAck, "RTM_GETLINK dump");
  batch.Header(LinkHeader(0, 0, 0));
  std::map<uint32_t, LinkCounters> counters;
  ATOLL_TRY(Dump(socket, batch, [&](const nlmsghdr* message) {
    std::optional<uint32_t> slot;
    rtnl_link_stats64 stats{};
    for (const Attribute& attribute : Attributes(message, sizeof(ifinfomsg))) {
      if (attribute.type == IFLA_IFNAME) slot = SlotOfLink(instance, attribute.Text());
      if (attribute.type != IFLA_STATS64) continue;
      std::memcpy(&stats, attribute.bytes.data(), std::min(attribute.bytes.size(), sizeof stats));
    }
    if (slot) {
      counters[*slot] = {stats.rx_bytes, stats.tx_bytes, stats.rx_packets, stats.tx_packets};
    }
  }));
  return counters;
}

Result<uint32_t> DefaultRouteMtu(int socket) {
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    NetlinkBatch routes;
    routes.Begin(RTM_GETROUTE, NLM_F_DUMP | NetlinkBatch::kNoAck, "RTM_GETROUTE dump");
    rtmsg header{};
    header.rtm_family = family;
    routes.Header(header);
    std::optional<uint32_t> index;
    ATOLL_TRY(Dump(socket, routes, [&](const nlmsghdr* message) {
      const auto route = HeaderOf<rtmsg>(message);
      if (index || route.rtm_dst_len != 0 || route.rtm_type != RTN_UNICAST ||
          route.rtm_table != RT_TABLE_MAIN) {
        return;
      }
      for (const Attribute& attribute : Attributes(message, sizeof(rtmsg))) {
        if (attribute.type == RTA_OIF) index = attribute.U32();
      }
    }));
    if (!index) continue;
    uint32_t mtu = 0;
    NetlinkBatch link;
    link.Begin(RTM_GETLINK, NLM_F_DUMP | NetlinkBatch::kNoAck, "RTM_GETLINK dump");
    link.Header(LinkHeader(0, 0, 0));
    link.PutU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    ATOLL_TRY(Dump(socket, link, [&](const nlmsghdr* message) {
      const auto info = HeaderOf<ifinfomsg>(message);
      if (static_cast<uint32_t>(info.ifi_index) != *index) return;
      for (const Attribute& attribute : Attributes(message, sizeof(ifinfomsg))) {
        if (attribute.type == IFLA_MTU) mtu = attribute.U32();
      }
    }));
    return mtu;
  }
  return 0U;
}

}  // namespace atl::netpolicy
