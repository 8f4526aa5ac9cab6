#include "netpolicy/rules/fence_watch.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/netconf.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "netpolicy/address/addresses.h"
#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"

namespace atl::netpolicy {
namespace {

// Large enough for another program's ruleset that is flushed and loaded again. If the buffer
// overflows, everything is checked.
constexpr int kReceiveBuffer = 1 << 20;
// Most datagrams of one wake-up. It is more than the buffer holds, so that the deletion of a link
// and of everything that belonged to it are read together.
constexpr int kMaxDatagrams = 8192;

constexpr uint32_t kPass = ~0U, kStop = 0;

// Classic BPF loads in network order. Netlink writes in host order.
uint32_t Loaded(uint32_t host) {
  return htonl(host);
}
uint32_t Loaded16(uint16_t host) {
  return htons(host);
}

sock_filter Load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter Load16(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_H | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter Jump(uint16_t test, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, if_true, if_false);
}
sock_filter Return(uint32_t value) {
  return BPF_STMT(BPF_RET | BPF_K, value);
}

// Passes the rule changes of other sockets. All messages of one datagram come from the same
// transaction.
std::vector<sock_filter> RulesFilter(uint32_t own_portid) {
  return {Load(offsetof(nlmsghdr, nlmsg_pid)), Jump(BPF_JEQ, Loaded(own_portid), 0, 1),
          Return(kStop), Return(kPass)};
}

// Passes removals from our links or from lo:
// - A link that is set down. A link that is being made is skipped; the kernel reports all its flags
//   as changed.
// - Deleted addresses, neighbours and queueing disciplines. Neighbours that the kernel forgets
//   itself are skipped: it drops those of multicast addresses (NUD_NOARP) whenever the table is
//   full, which a sandbox can cause. Our own neighbours are permanent; after a foreign deletion
//   they are NUD_FAILED.
// - All deleted routes, because the filter cannot find the attribute with their link.
// - Forwarding switches that apply to all links.
std::vector<sock_filter> LinksFilter(uint32_t instance) {
  constexpr size_t kBody = NLMSG_HDRLEN;
  constexpr size_t kIndex = kBody + offsetof(ifinfomsg, ifi_index);
  static_assert(offsetof(ifinfomsg, ifi_index) == offsetof(ifaddrmsg, ifa_index) &&
                offsetof(ifinfomsg, ifi_index) == offsetof(ndmsg, ndm_ifindex) &&
                offsetof(ifinfomsg, ifi_index) == offsetof(tcmsg, tcm_ifindex));
  // NETCONFA_IFINDEX is the first attribute.
  constexpr size_t kNetconfIndex = kBody + NLMSG_ALIGN(sizeof(netconfmsg)) + sizeof(nlattr);
  const uint32_t ours = Loaded(static_cast<uint32_t>(HostIfindex(instance, 0)));
  return {
      /* 0 */ Load16(offsetof(nlmsghdr, nlmsg_type)),
      /* 1 */ Jump(BPF_JEQ, Loaded16(RTM_DELROUTE), 20, 0),
      /* 2 */ Jump(BPF_JEQ, Loaded16(RTM_NEWNETCONF), 5, 0),
      /* 3 */ Jump(BPF_JEQ, Loaded16(RTM_NEWLINK), 6, 0),
      /* 4 */ Jump(BPF_JEQ, Loaded16(RTM_DELLINK), 12, 0),
      /* 5 */ Jump(BPF_JEQ, Loaded16(RTM_DELADDR), 11, 0),
      /* 6 */ Jump(BPF_JEQ, Loaded16(RTM_DELNEIGH), 8, 0),
      /* 7 */ Jump(BPF_JEQ, Loaded16(RTM_DELQDISC), 9, 13),
      /* 8 */ Load(kNetconfIndex),
      /* 9 */ Jump(BPF_JEQ, static_cast<uint32_t>(NETCONFA_IFINDEX_ALL), 12, 11),
      /* 10 */ Load(kBody + offsetof(ifinfomsg, ifi_flags)),
      /* 11 */ Jump(BPF_JSET, Loaded(IFF_UP), 9, 0),
      /* 12 */ Load(kBody + offsetof(ifinfomsg, ifi_change)),
      /* 13 */ Jump(BPF_JEQ, ~0U, 7, 0),
      /* 14 */ Jump(BPF_JSET, Loaded(IFF_UP), 2, 6),
      /* 15 */ Load16(kBody + offsetof(ndmsg, ndm_state)),
      /* 16 */ Jump(BPF_JSET, Loaded16(NUD_NOARP), 4, 0),
      /* 17 */ Load(kIndex),
      /* 18 */ Jump(BPF_JEQ, Loaded(kLoIfindex), 3, 0),
      /* 19 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, Loaded(~0xffffU)),
      /* 20 */ Jump(BPF_JEQ, ours, 1, 0),
      /* 21 */ Return(kStop),
      /* 22 */ Return(kPass),
  };
}

Status Attach(int socket, std::vector<sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    return FailSys("setsockopt SO_ATTACH_FILTER");
  }
  return {};
}

Result<UniqueFd> Listen(int protocol, std::vector<sock_filter> filter,
                        std::initializer_list<int> groups) {
  ATOLL_ASSIGN(UniqueFd socket, OpenNetlink(protocol));
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer,
                     sizeof kReceiveBuffer);
  ATOLL_TRY(Attach(socket.get(), std::move(filter)));
  // A socket without a port id would not get messages that exclude no port.
  sockaddr_nl any{};
  any.nl_family = AF_NETLINK;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) {
    return FailSys("bind of a netlink socket");
  }
  for (const int group : groups) {
    if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) !=
        0) {
      return FailSys("setsockopt NETLINK_ADD_MEMBERSHIP " + std::to_string(group));
    }
  }
  return socket;
}

// Calls `on_message` for each pending message. Returns false if the kernel had to drop some.
bool Drain(int socket, const std::function<void(const nlmsghdr*)>& on_message) {
  alignas(nlmsghdr) std::array<uint8_t, 16384> buffer;
  bool complete = true;
  for (int i = 0; i < kMaxDatagrams; ++i) {
    const ssize_t n = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if ((n < 0 && errno == ENOBUFS) || n > static_cast<ssize_t>(buffer.size())) {
      complete = false;
      continue;
    }
    if (n <= 0) break;
    std::span<const uint8_t> left(buffer.data(), static_cast<size_t>(n));
    while (const nlmsghdr* message = TakeMessage(&left)) on_message(message);
  }
  return complete;
}

// Returns the link's index, which is at the same offset in ifinfomsg and in the headers of
// addresses and neighbours, see LinksFilter.
uint32_t IndexOf(const nlmsghdr* message) {
  return static_cast<uint32_t>(HeaderOf<ifinfomsg>(message).ifi_index);
}

}  // namespace

Result<std::unique_ptr<FenceWatch>> FenceWatch::Open(uint32_t instance, uint32_t own_portid) {
  ATOLL_ASSIGN(UniqueFd rules,
               Listen(NETLINK_NETFILTER, RulesFilter(own_portid), {NFNLGRP_NFTABLES}));
  ATOLL_ASSIGN(UniqueFd links, Listen(NETLINK_ROUTE, LinksFilter(instance),
                                      {RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_TC, RTNLGRP_IPV4_IFADDR,
                                       RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
                                       RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF}));
  return std::unique_ptr<FenceWatch>(new FenceWatch(instance, std::move(rules), std::move(links)));
}

FenceWatch::~FenceWatch() {
  if (!loop_) return;
  loop_->Unwatch(rules_watch_);
  loop_->Unwatch(links_watch_);
}

void FenceWatch::Start(Loop& loop, OnChange on_change) {
  loop_ = &loop;
  on_change_ = std::move(on_change);
  rules_watch_ = loop.WatchReadable(rules_.get(), [this] { ReadRules(); });
  links_watch_ = loop.WatchReadable(links_.get(), [this] { ReadLinks(); });
}

void FenceWatch::ReadRules() {
  FenceChanges changes;
  const bool complete =
      Drain(rules_.get(), [&](const nlmsghdr* message) { AddRuleMessage(message, &changes); });
  if (!complete) changes.table = true;
  if (changes.any()) on_change_(changes);
}

void FenceWatch::AddRuleMessage(const nlmsghdr* message, FenceChanges* changes) const {
  if (message->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES) return;
  const std::vector<Attribute> attributes = Attributes(message, sizeof(nfgenmsg));
  if ((message->nlmsg_type & 0xff) == NFT_MSG_NEWGEN) {
    std::string name, pid;
    for (const Attribute& attribute : attributes) {
      if (attribute.type == NFTA_GEN_PROC_NAME) name = attribute.Text();
      if (attribute.type == NFTA_GEN_PROC_PID) pid = std::to_string(attribute.Be32());
    }
    if (changes->table && changes->by.empty()) changes->by = name + " (pid " + pid + ")";
    return;
  }
  // This attribute holds the table's name for every type of object.
  for (const Attribute& attribute : attributes) {
    if (attribute.type != NFTA_TABLE_NAME) continue;
    changes->table |= attribute.Text() == TableName(instance_);
  }
}

void FenceWatch::ReadLinks() {
  FenceChanges changes;
  const bool complete =
      Drain(links_.get(), [&](const nlmsghdr* message) { AddLinkMessage(message, &changes); });
  if (!complete) {
    // A link that disappeared and is there again may have lost half of its settings.
    changes.slots.clear();
    changes.gone.clear();
    changes.host = changes.all_slots = true;
  }
  if (changes.any()) on_change_(changes);
}

void FenceWatch::AddLinkMessage(const nlmsghdr* message, FenceChanges* changes) const {
  uint32_t index = 0;
  if (message->nlmsg_type == RTM_NEWNETCONF) {
    changes->host = true;
    return;
  }
  if (message->nlmsg_type == RTM_DELROUTE) {
    for (const Attribute& attribute : Attributes(message, sizeof(rtmsg))) {
      if (attribute.type == RTA_OIF) index = attribute.U32();
    }
  } else {
    index = IndexOf(message);
  }
  if (index == kLoIfindex) changes->host = true;
  const auto slot = SlotOfIfindex(instance_, index);
  if (!slot) return;
  if (message->nlmsg_type != RTM_DELLINK) {
    changes->slots.insert(*slot);
    return;
  }
  // Earlier changes concern the deleted link. A link that exists now is a new one of the same slot.
  changes->slots.erase(*slot);
  changes->gone.insert(*slot);
}

}  // namespace atl::netpolicy
