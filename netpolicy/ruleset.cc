#include "netpolicy/ruleset.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <algorithm>
#include <string>

#include "netpolicy/addresses.h"
#include "netpolicy/network.h"

namespace atl::netpolicy {
namespace {

// nft(8)'s numbers of data types; a concatenation has 6 bits for each.
constexpr uint32_t kTypeIpv4 = 7, kTypeIpv6 = 8, kTypeMac = 9, kTypeIfname = 41;
constexpr uint32_t LinkKeyType(uint32_t address) {
  return kTypeIfname << 12 | address << 6 | kTypeMac;
}
constexpr uint32_t kMacRegisterSize = 8;  // padded to whole registers

// Never reachable, whatever a policy says: this-network, loopback, link-local with the clouds'
// metadata services, multicast, reserved and broadcast; the sandboxes of all instances.
constexpr const char* kNever4[] = {"0.0.0.0/8", "10.200.0.0/13", "127.0.0.0/8", "169.254.0.0/16",
                                   "224.0.0.0/3"};
// 64:ff9b::/96 and 2002::/16 carry IPv4 addresses: those that IPv4 would refuse are refused here.
constexpr const char* kNever6[] = {"::/96",
                                   "::ffff:0:0/96",
                                   "64:ff9b::/104",
                                   "64:ff9b::7f00:0/104",
                                   "64:ff9b::a9fe:0/112",
                                   "64:ff9b::e000:0/99",
                                   "2002::/16",
                                   "fd00:ec2::/32",
                                   "fd61:746c:6c00::/40",
                                   "fe80::/10",
                                   "ff00::/8"};
// The operator's own networks.
constexpr const char* kPrivate4[] = {"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12",
                                     "192.168.0.0/16"};
constexpr const char* kPrivate6[] = {"64:ff9b::a00:0/104",
                                     "64:ff9b::6440:0/106",
                                     "64:ff9b::ac10:0/108",
                                     "64:ff9b::c0a8:0/112",
                                     "64:ff9b:1::/48",
                                     "fc00::/7",
                                     "fec0::/10"};

NftTransaction::Interval IntervalOf(std::string prefix, int family) {
  const size_t slash = prefix.find('/');
  const size_t bits = static_cast<size_t>(std::stoi(prefix.substr(slash + 1)));
  NftTransaction::Interval interval;
  interval.first.resize(family == AF_INET ? 4 : 16);
  ATOLL_CHECK(::inet_pton(family, prefix.substr(0, slash).c_str(), interval.first.data()) == 1);
  // The next prefix of the same length: add one at its last bit and carry to the left.
  interval.end = interval.first;
  unsigned carry = 1U << ((8 - bits % 8) % 8);
  for (size_t i = (bits - 1) / 8 + 1; i-- > 0 && carry != 0;) {
    const unsigned sum = interval.end[i] + carry;
    interval.end[i] = static_cast<uint8_t>(sum & 0xff);
    carry = sum >> 8;
  }
  if (carry != 0) interval.end.clear();  // to the end of the address space
  return interval;
}

template <size_t N>
void FillAddressSet(NftTransaction& transaction, const std::string& name,
                    const char* const (&prefixes)[N], int family) {
  const bool ipv6 = family == AF_INET6;
  transaction.AddSet({.name = name,
                      .key_type = ipv6 ? kTypeIpv6 : kTypeIpv4,
                      .key_size = ipv6 ? 16U : 4U,
                      .interval = true});
  transaction.FlushSet(name);
  std::vector<NftTransaction::Interval> intervals;
  for (const char* prefix : prefixes) intervals.push_back(IntervalOf(prefix, family));
  transaction.AddIntervals(name, intervals);
}

void AddSets(NftTransaction& transaction) {
  transaction.AddSet({.name = kLinkSet4,
                      .key_type = LinkKeyType(kTypeIpv4),
                      .key_size = IFNAMSIZ + 4 + kMacRegisterSize,
                      .capacity = kMaxSlot + 1});
  transaction.AddSet({.name = kLinkSet6,
                      .key_type = LinkKeyType(kTypeIpv6),
                      .key_size = IFNAMSIZ + 16 + kMacRegisterSize,
                      .capacity = kMaxSlot + 1});
  FillAddressSet(transaction, "never4", kNever4, AF_INET);
  FillAddressSet(transaction, "never6", kNever6, AF_INET6);
  FillAddressSet(transaction, "private4", kPrivate4, AF_INET);
  FillAddressSet(transaction, "private6", kPrivate6, AF_INET6);
}

// What a program may run into without meaning harm is refused, not dropped: its connect(2) fails at
// once instead of after minutes of retries. TCP gets a reset, because the kernel forgets an ICMP
// error that arrives while connect(2) still holds the socket, as it does on a veth.
void AddRefuse(NftTransaction& t) {
  t.AddRule("refuse", "TCP").Protocol(IPPROTO_TCP).Reset();
  t.AddRule("refuse", "others").Reject();
}

// Before connection tracking: who does not use its own addresses is not heard at all, and no
// address of this host but the gateway's is an address for a sandbox. (Here and not only in
// `input`, because a foreign rule may redirect a port of this host into a container.)
void AddPrerouting(NftTransaction& t, const std::string& links, uint32_t instance) {
  t.AddRule("prerouting", "not from a sandbox").InNotFrom(links).Accept();
  t.AddRule("prerouting", "own IPv4 source and MAC")
      .IsIpv4()
      .LinkSourceIn(kLinkSet4, false)
      .Goto("local");
  t.AddRule("prerouting", "own IPv6 source and MAC")
      .IsIpv6()
      .LinkSourceIn(kLinkSet6, true)
      .Goto("local");
  t.AddRule("prerouting", "spoofed").Drop();

  t.AddRule("local", "gateway").IsIpv4().Destination(GatewayIpv4(instance), false).Accept();
  t.AddRule("local", "gateway").IsIpv6().Destination(GatewayIpv6(instance), true).Accept();
  t.AddRule("local", "this host").DestinationIsLocal().Goto("refuse");
}

void AddInput(NftTransaction& t, const std::string& links, uint32_t instance) {
  t.AddRule("input", "not from a sandbox").InNotFrom(links).Accept();
  t.AddRule("input", "gateway").IsIpv4().Destination(GatewayIpv4(instance), false).Goto("gateway");
  t.AddRule("input", "gateway").IsIpv6().Destination(GatewayIpv6(instance), true).Goto("gateway");
  t.AddRule("input", "this host").Drop();

  t.AddRule("gateway", "DNS").Protocol(IPPROTO_UDP).DestinationPort(kDnsPort).Accept();
  t.AddRule("gateway", "DNS").Protocol(IPPROTO_TCP).DestinationPort(kDnsPort).Accept();
  t.AddRule("gateway", "ping").Protocol(IPPROTO_ICMP).IcmpType(ICMP_ECHO).Accept();
  t.AddRule("gateway", "ping").Protocol(IPPROTO_ICMPV6).IcmpType(ICMP6_ECHO_REQUEST).Accept();
  t.AddRule("gateway", "other service").Goto("refuse");
}

void AddForward(NftTransaction& t, const std::string& links) {
  t.AddRule("forward", "from a sandbox").InFrom(links).Jump("outbound");
  t.AddRule("forward", "to a sandbox").OutTo(links).Jump("inbound");

  // Destinations first, connections second: a rule that changes holds for flows that exist.
  t.AddRule("outbound", "sibling").OutTo(links).Goto("refuse");
  t.AddRule("outbound", "never").IsIpv4().DestinationIn("never4", false).Goto("refuse");
  t.AddRule("outbound", "never").IsIpv6().DestinationIn("never6", true).Goto("refuse");
  t.AddRule("outbound", "private").IsIpv4().DestinationIn("private4", false).Goto("refuse");
  t.AddRule("outbound", "private").IsIpv6().DestinationIn("private6", true).Goto("refuse");
  t.AddRule("outbound", "invalid").ConnectionState(kCtInvalid).Drop();
  t.AddRule("outbound", "TCP").Protocol(IPPROTO_TCP).Accept();
  t.AddRule("outbound", "UDP").Protocol(IPPROTO_UDP).Accept();
  t.AddRule("outbound", "ping").Protocol(IPPROTO_ICMP).IcmpType(ICMP_ECHO).Accept();
  t.AddRule("outbound", "ping").Protocol(IPPROTO_ICMPV6).IcmpType(ICMP6_ECHO_REQUEST).Accept();
  t.AddRule("outbound", "other protocol").Drop();

  t.AddRule("inbound", "replies").ConnectionState(kCtEstablished).Accept();
  t.AddRule("inbound", "errors").ConnectionState(kCtRelated).Protocol(IPPROTO_ICMP).Accept();
  t.AddRule("inbound", "errors").ConnectionState(kCtRelated).Protocol(IPPROTO_ICMPV6).Accept();
  t.AddRule("inbound", "new connection").Drop();
}

void AddPostrouting(NftTransaction& t, const std::string& links, uint32_t instance) {
  const Ipv4Bytes gateway4 = GatewayIpv4(instance);
  const Ipv6Bytes gateway6 = GatewayIpv6(instance);
  const std::span<const uint8_t> network4 = std::span(gateway4).first(2);  // 10.x.0.0/16
  const std::span<const uint8_t> network6 = std::span(gateway6).first(8);  // fd61:746c:6c0x::/64
  t.AddRule("postrouting", "NAT").OutNotTo(links).IsIpv4().Source(network4, false).Masquerade();
  t.AddRule("postrouting", "NAT").OutNotTo(links).IsIpv6().Source(network6, true).Masquerade();
}

// The key of a slot in the link sets: name, address and MAC, each padded to whole registers.
std::vector<uint8_t> LinkKey(uint32_t instance, uint32_t slot, std::span<const uint8_t> address) {
  const std::string name = LinkName(instance, slot);
  const MacBytes mac = InsideMac(instance, slot);
  std::vector<uint8_t> key(IFNAMSIZ + address.size() + kMacRegisterSize);
  std::copy(name.begin(), name.end(), key.begin());
  std::copy(address.begin(), address.end(), key.begin() + IFNAMSIZ);
  std::copy(mac.begin(), mac.end(),
            key.begin() + IFNAMSIZ + static_cast<std::ptrdiff_t>(address.size()));
  return key;
}

}  // namespace

void AddRuleset(NftTransaction& t, uint32_t instance) {
  const std::string links = LinkPrefix(instance);
  t.AddTable();
  t.AddBaseChain("prerouting", {"filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW});
  t.AddBaseChain("input", {"filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER});
  t.AddBaseChain("forward", {"filter", NF_INET_FORWARD, NF_IP_PRI_FILTER});
  t.AddBaseChain("postrouting", {"nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC});
  for (const char* chain : {"refuse", "local", "gateway", "outbound", "inbound"}) t.AddChain(chain);
  t.FlushRules();
  AddSets(t);
  AddRefuse(t);
  AddPrerouting(t, links, instance);
  AddInput(t, links, instance);
  AddForward(t, links);
  AddPostrouting(t, links, instance);
}

void AddSlotElements(NftTransaction& t, uint32_t instance, uint32_t slot) {
  t.AddElement(kLinkSet4, LinkKey(instance, slot, SlotIpv4(instance, slot)));
  t.AddElement(kLinkSet6, LinkKey(instance, slot, SlotIpv6(instance, slot)));
}

void DeleteSlotElements(NftTransaction& t, uint32_t instance, uint32_t slot) {
  t.DeleteElement(kLinkSet4, LinkKey(instance, slot, SlotIpv4(instance, slot)));
  t.DeleteElement(kLinkSet6, LinkKey(instance, slot, SlotIpv6(instance, slot)));
}

}  // namespace atl::netpolicy
