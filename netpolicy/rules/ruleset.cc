#include "netpolicy/rules/ruleset.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <algorithm>
#include <optional>
#include <string>

#include "netpolicy/address/addresses.h"
#include "netpolicy/address/ports.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/rules/barrier.h"
#include "netpolicy/rules/policy_sets.h"

namespace atl::netpolicy {
namespace {

constexpr uint32_t LinkKeyType(uint32_t address) {
  return kTypeIfname << 12 | address << 6 | kTypeMac;
}
constexpr uint32_t kMacRegisterSize = 8;  // padded to whole registers

// Limit of new flows of one sandbox. For every new flow the kernel searches for all existing ones
// of the sandbox. At the limit of some thousands, each further try takes half a millisecond of CPU
// time that is charged to nobody. Excess packets are dropped, and TCP retries a second later.
// Towards the gateway this is the only limit: a question from a port of its own stays a flow for 30
// seconds.
constexpr uint32_t kFlowsPerSecond = 250, kFlowBurst = 4000;
// Limit of logged packets of one sandbox: enough to see what it tries, and a bound on the daemon's
// work.
constexpr uint32_t kLoggedPerSecond = 10, kLoggedBurst = 50;

// Appends the first key, and the key after the last one unless the address space ends there.
void AppendInterval(std::vector<NftTransaction::Element>& elements, const IpPrefix& prefix) {
  const IpAddress first = prefix.first();
  elements.push_back({.key = {first.span().begin(), first.span().end()}});
  if (const auto after = prefix.last().Next()) {
    elements.push_back({.key = {after->span().begin(), after->span().end()}, .interval_end = true});
  }
}

// Drops prefixes within others, because the kernel refuses overlapping intervals.
std::vector<IpPrefix> Outermost(std::vector<IpPrefix> prefixes, bool ipv6) {
  std::erase_if(prefixes, [&](const IpPrefix& p) { return p.address.ipv6 != ipv6; });
  // the wider one of two with the same address sorts first
  std::sort(prefixes.begin(), prefixes.end());
  std::vector<IpPrefix> outermost;
  for (const IpPrefix& prefix : prefixes) {
    if (outermost.empty() || !outermost.back().Contains(prefix)) outermost.push_back(prefix);
  }
  return outermost;
}

void FillAddressSets(NftTransaction& t, const char* set4, const char* set6,
                     const std::vector<IpPrefix>& prefixes) {
  for (const bool ipv6 : {false, true}) {
    const char* name = ipv6 ? set6 : set4;
    t.AddSet({.name = name,
              .key_type = ipv6 ? kTypeIpv6 : kTypeIpv4,
              .key_size = ipv6 ? 16U : 4U,
              .interval = true});
    t.FlushSet(name);
    std::vector<NftTransaction::Element> elements;
    for (const IpPrefix& prefix : Outermost(prefixes, ipv6)) AppendInterval(elements, prefix);
    t.AddElements(name, elements);
  }
}

void AddSets(NftTransaction& t, const RulesetConfig& config) {
  t.AddSet({.name = kLinkSet4,
            .key_type = LinkKeyType(kTypeIpv4),
            .key_size = IFNAMSIZ + 4 + kMacRegisterSize,
            .capacity = kMaxSlot + 1});
  t.AddSet({.name = kLinkSet6,
            .key_type = LinkKeyType(kTypeIpv6),
            .key_size = IFNAMSIZ + 16 + kMacRegisterSize,
            .capacity = kMaxSlot + 1});
  FillAddressSets(t, "never4", "never6", NeverReachable());
  FillAddressSets(t, "guarded4", "guarded6", config.guarded);
  AddPolicySets(t);
}

// Packets that a harmless program may send are refused, not dropped, so that its connect(2) fails
// at once and not after minutes of retries. TCP gets a reset, because the kernel forgets an ICMP
// error that arrives while connect(2) still holds the socket, which happens on a veth.
void AddRefuse(NftTransaction& t, const RulesetConfig& config) {
  for (const char* chain : {"refuse", "too_fast"}) {
    t.AddRule(chain, "count").InIn(kDeniedSet).Continue();
    t.AddRule(chain, "log")
        .InRate(kLogRateSet, kLoggedPerSecond, kLoggedBurst)
        .Log(config.log_group)
        .Continue();
  }
  t.AddRule("too_fast", "again later").Drop();
  t.AddRule("refuse", "TCP").Protocol(IPPROTO_TCP).Reset();
  t.AddRule("refuse", "others").Reject();
}

// The kinds of elements that may hold a verdict on a packet's destination, most specific first: its
// port, all ports of its protocol, the address alone.
enum class Place : uint8_t { kPort, kProtocol, kAddress };
constexpr Place kPlaces[] = {Place::kPort, Place::kProtocol, Place::kAddress};

// Sends packets for which the policy has a verdict of this kind (`said`: only this verdict) to the
// chain `next`. Null: accepts them.
void AddPlaceRules(NftTransaction& t, const std::string& chain, const char* comment, Place place,
                   bool ipv6, std::optional<RangeAction> said, const char* next) {
  const bool with_port = place != Place::kAddress;
  const char* const maps[] = {
      with_port ? (ipv6 ? kPortMap6 : kPortMap4) : (ipv6 ? kAddressMap6 : kAddressMap4),
      with_port ? (ipv6 ? kPortRangeMap6 : kPortRangeMap4)
                : (ipv6 ? kAddressRangeMap6 : kAddressRangeMap4)};
  const uint32_t value = said ? static_cast<uint32_t>(*said) : 0;
  for (const char* map : maps) {
    auto rule = t.AddRule(chain, comment);
    if (ipv6) {
      rule.IsIpv6();
    } else {
      rule.IsIpv4();
    }
    if (with_port) {
      rule.InPortDestinationIn(map, ipv6, place == Place::kProtocol, value);
    } else {
      rule.InDestinationIn(map, ipv6, value);
    }
    if (next != nullptr) {
      rule.Goto(next);
    } else {
      rule.Accept();
    }
  }
}

// An address of this host is reachable only if the policy names it.
void AddHost(NftTransaction& t) {
  t.AddRule("host", "no policy").InNotIn(kPolicedSet).Goto("refuse");
  for (const bool ipv6 : {false, true}) {
    for (const Place place : kPlaces) {
      AddPlaceRules(t, "host", "named", place, ipv6, RangeAction::kNamed, "pass");
      AddPlaceRules(t, "host", "not named", place, ipv6, std::nullopt, "refuse");
    }
  }
  t.AddRule("host", "not named").Goto("refuse");
}

// Before connection tracking. A packet with foreign addresses is dropped without a trace. No
// address of this host except the gateway's is a destination for a sandbox, unless its policy names
// it. This is checked here and not only in `input`, because a foreign rule may redirect a port of
// this host into a container.
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
  // Packets that `redirect` redirects.
  t.AddRule("local", "DNS").Protocol(IPPROTO_UDP).DestinationPort(kDnsPort).Accept();
  t.AddRule("local", "DNS").Protocol(IPPROTO_TCP).DestinationPort(kDnsPort).Accept();
  t.AddRule("local", "this host").DestinationIsLocal().Goto("host");
  AddHost(t);
}

// Redirects DNS to our name server, whatever server is asked, and connections that can only be
// judged by name to our proxy. Chains of type nat see the first packet of a flow.
void AddRedirect(NftTransaction& t, const std::string& links, const RulesetConfig& config) {
  const Ipv4Bytes gateway4 = GatewayIpv4(config.instance);
  const Ipv6Bytes gateway6 = GatewayIpv6(config.instance);
  t.AddRule("redirect", "not from a sandbox").InNotFrom(links).Accept();
  for (const uint8_t protocol : {IPPROTO_UDP, IPPROTO_TCP}) {
    t.AddRule("redirect", "DNS").Protocol(protocol).DestinationPort(kDnsPort).Goto("name_server");
  }
  t.AddRule("name_server", "DNS").IsIpv4().TranslateDestination(gateway4, false, kDnsPort);
  t.AddRule("name_server", "DNS").IsIpv6().TranslateDestination(gateway6, true, kDnsPort);

  t.AddRule("redirect", "not judged by names").InNotIn(kProxiedSet).Accept();
  for (const uint16_t port : kWebPorts) {
    t.AddRule("redirect", "web").Protocol(IPPROTO_TCP).DestinationPort(port).Goto("web");
  }
  for (const bool ipv6 : {false, true}) {
    for (const Place place : kPlaces) {
      AddPlaceRules(t, "web", "address", place, ipv6, std::nullopt, nullptr);
    }
  }
  t.AddRule("web", "proxy").IsIpv4().TranslateDestination(gateway4, false, config.proxy_port);
  t.AddRule("web", "proxy").IsIpv6().TranslateDestination(gateway6, true, config.proxy_port);
}

void AddInput(NftTransaction& t, const std::string& links, const RulesetConfig& config) {
  const uint32_t instance = config.instance;
  t.AddRule("input", "not from a sandbox").InNotFrom(links).Accept();
  t.AddRule("input", "gateway").IsIpv4().Destination(GatewayIpv4(instance), false).Goto("gateway");
  t.AddRule("input", "gateway").IsIpv6().Destination(GatewayIpv6(instance), true).Goto("gateway");
  // Reached also through redirections of other tables.
  t.AddRule("input", "this host").Goto("host");

  t.AddRule("gateway", "too fast")
      .ConnectionState(kCtNew)
      .InRateOver(kGatewayFlowRateSet, kFlowsPerSecond, kFlowBurst)
      .Goto("too_fast");
  t.AddRule("gateway", "DNS").Protocol(IPPROTO_UDP).DestinationPort(kDnsPort).Goto("pass");
  t.AddRule("gateway", "DNS").Protocol(IPPROTO_TCP).DestinationPort(kDnsPort).Goto("pass");
  t.AddRule("gateway", "proxy")
      .Protocol(IPPROTO_TCP)
      .DestinationPort(config.proxy_port)
      .DestinationTranslated()
      .Goto("pass");
  t.AddRule("gateway", "ping").Protocol(IPPROTO_ICMP).IcmpType(ICMP_ECHO).Goto("pass");
  t.AddRule("gateway", "ping").Protocol(IPPROTO_ICMPV6).IcmpType(ICMP6_ECHO_REQUEST).Goto("pass");
  t.AddRule("gateway", "other service").Goto("refuse");
}

void AddGuard(NftTransaction& t, const std::string& chain, bool ipv6) {
  auto rule = t.AddRule(chain, "guarded");
  if (ipv6) {
    rule.IsIpv6().DestinationIn("guarded6", true).Goto("refuse");
  } else {
    rule.IsIpv4().DestinationIn("guarded4", false).Goto("refuse");
  }
}

void AddForward(NftTransaction& t, const std::string& links, const RulesetConfig& config) {
  t.AddRule("forward", "from a sandbox").InFrom(links).Jump("outbound");
  t.AddRule("forward", "to a sandbox").OutTo(links).Jump("inbound");

  // Destinations are judged before established connections, so that a changed rule also applies to
  // existing flows.
  t.AddRule("outbound", "invalid").ConnectionState(kCtInvalid).Drop();
  t.AddRule("outbound", "sibling").OutTo(links).Goto("siblings");
  t.AddRule("outbound", "never").IsIpv4().DestinationIn("never4", false).Goto("refuse");
  t.AddRule("outbound", "never").IsIpv6().DestinationIn("never6", true).Goto("refuse");
  t.AddRule("outbound", "policy").InIn(kPolicedSet).Goto("policed");
  t.AddRule("outbound", "open").Goto("unguarded");

  // The mark is free for this use: routes are already chosen, and it ends where the packet leaves
  // this namespace.
  t.AddRule("siblings", "no network").Mark(0).Continue();
  t.AddRule("siblings", "network").MarkByIn(kNetworkMap).Continue();
  t.AddRule("siblings", "member").IsIpv4().MarkDestinationIn(kMemberSet4, false).Goto("protocols");
  t.AddRule("siblings", "member").IsIpv6().MarkDestinationIn(kMemberSet6, true).Goto("protocols");
  t.AddRule("siblings", "sibling").Goto("refuse");

  AddGuard(t, "unguarded", false);
  AddGuard(t, "unguarded", true);
  t.AddRule("unguarded", "protocols").Goto("protocols");

  t.AddRule("protocols", "too fast")
      .ConnectionState(kCtNew)
      .InRateOver(kFlowRateSet, kFlowsPerSecond, kFlowBurst)
      .Goto("too_fast");
  t.AddRule("protocols", "connections")
      .ConnectionState(kCtNew)
      .InConnectionsOver(kConnectionSet, config.max_connections)
      .Goto("refuse");
  t.AddRule("protocols", "TCP").Protocol(IPPROTO_TCP).Goto("pass");
  t.AddRule("protocols", "UDP").Protocol(IPPROTO_UDP).Goto("pass");
  t.AddRule("protocols", "ping").Protocol(IPPROTO_ICMP).IcmpType(ICMP_ECHO).Goto("pass");
  t.AddRule("protocols", "ping").Protocol(IPPROTO_ICMPV6).IcmpType(ICMP6_ECHO_REQUEST).Goto("pass");
  t.AddRule("protocols", "other protocol").Drop();

  t.AddRule("inbound", "replies").ConnectionState(kCtEstablished).Goto("pass");
  t.AddRule("inbound", "errors").ConnectionState(kCtRelated).Protocol(IPPROTO_ICMP).Goto("pass");
  t.AddRule("inbound", "errors").ConnectionState(kCtRelated).Protocol(IPPROTO_ICMPV6).Goto("pass");
  t.AddRule("inbound", "new connection").Drop();
}

// Default deny: what no rule here accepts is refused at the end. When a policy changes, flows that
// it no longer allows are removed from connection tracking, and their packets are then judged as
// new flows.
void AddPoliced(NftTransaction& t) {
  t.AddRule("policed", "established").ConnectionState(kCtEstablished).Goto("protocols");
  t.AddRule("policed", "IPv4").IsIpv4().Goto("policed4");
  t.AddRule("policed", "IPv6").IsIpv6().Goto("policed6");
  t.AddRule("policed", "other").Goto("refuse");
  for (const bool ipv6 : {false, true}) {
    const std::string chain = ipv6 ? "policed6" : "policed4";
    const char* learned = ipv6 ? kLearnedSet6 : kLearnedSet4;
    const char* learned_ports = ipv6 ? kLearnedPortSet6 : kLearnedPortSet4;
    for (const Place place : kPlaces) {
      AddPlaceRules(t, chain, "denied", place, ipv6, RangeAction::kDeny, "refuse");
      AddPlaceRules(t, chain, "allowed", place, ipv6, RangeAction::kAllow, "unguarded");
      AddPlaceRules(t, chain, "named", place, ipv6, RangeAction::kNamed, "protocols");
    }
    AddGuard(t, chain, ipv6);
    t.AddRule(chain, "port by name")
        .InPortDestinationIn(learned_ports, ipv6, false)
        .Goto("protocols");
    // DNS over TLS or QUIC would bypass the name server.
    for (const uint8_t protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
      t.AddRule(chain, "DoT").Protocol(protocol).DestinationPort(kDnsOverTlsPort).Goto("refuse");
    }
    // An address that a name has opened may belong to other names too. On web ports, a packet that
    // did not go to the proxy carries no name that can be judged (QUIC).
    for (const uint8_t protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
      for (const uint16_t port : kWebPorts) {
        t.AddRule(chain, "web")
            .InIn(kProxiedSet)
            .Protocol(protocol)
            .DestinationPort(port)
            .Goto("refuse");
      }
    }
    t.AddRule(chain, "protocol by name")
        .InPortDestinationIn(learned_ports, ipv6, true)
        .Goto("protocols");
    t.AddRule(chain, "by name").InDestinationIn(learned, ipv6).Goto("protocols");
    t.AddRule(chain, "by default").InIn(kByDefaultSet).Goto("protocols");
    t.AddRule(chain, "default").Goto("refuse");
  }
}

// Every accepted packet leaves the table here.
void AddPass(NftTransaction& t) {
  t.AddRule("pass", "for the barrier").SetMarkBits(kPassedBit).Accept();
}

void AddPostrouting(NftTransaction& t, const std::string& links, uint32_t instance) {
  const Ipv4Bytes gateway4 = GatewayIpv4(instance);
  const Ipv6Bytes gateway6 = GatewayIpv6(instance);
  const std::span<const uint8_t> network4 = std::span(gateway4).first(2);  // 10.x.0.0/16
  const std::span<const uint8_t> network6 = std::span(gateway6).first(8);  // fd61:746c:6c0x::/64
  t.AddRule("postrouting", "NAT").OutNotTo(links).IsIpv4().Source(network4, false).Masquerade();
  t.AddRule("postrouting", "NAT").OutNotTo(links).IsIpv6().Source(network6, true).Masquerade();
}

// Returns the key of a slot in the link sets: name, address and MAC, each padded to whole
// registers.
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

void AddRuleset(NftTransaction& t, const RulesetConfig& config) {
  const std::string links = LinkPrefix(config.instance);
  t.AddTable();
  t.AddBaseChain("prerouting", {"filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW});
  t.AddBaseChain("redirect", {"nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST});
  t.AddBaseChain("input", {"filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER});
  t.AddBaseChain("forward", {"filter", NF_INET_FORWARD, NF_IP_PRI_FILTER});
  t.AddBaseChain("postrouting", {"nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC});
  for (const char* chain : {"refuse", "too_fast", "local", "host", "gateway", "name_server", "web",
                            "outbound", "inbound", "siblings", "unguarded", "protocols", "policed",
                            "policed4", "policed6", "pass"}) {
    t.AddChain(chain);
  }
  t.FlushRules();
  AddSets(t, config);
  AddRefuse(t, config);
  AddPrerouting(t, links, config.instance);
  AddRedirect(t, links, config);
  AddInput(t, links, config);
  AddForward(t, links, config);
  AddPoliced(t);
  AddPass(t);
  AddPostrouting(t, links, config.instance);
}

void AddRulesetAnew(NftTransaction& t, const RulesetConfig& config) {
  t.AddTable();  // added first, because deleting a missing table fails
  t.DeleteTable();
  AddRuleset(t, config);
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
