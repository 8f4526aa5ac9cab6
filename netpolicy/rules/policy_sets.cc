#include "netpolicy/rules/policy_sets.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "netpolicy/address/addresses.h"

namespace atl::netpolicy {
namespace {

using Element = NftTransaction::Element;
using KeyBytes = std::vector<uint8_t>;

// Combines data types. Interval sets with such a key compare it as one number, as rbtree sets do if
// they are not told that the key is a concatenation; nft(8) then shows it as a number. The
// alternative (pipapo) copies the whole set for each transaction, so its cost grows with the number
// of sandboxes.
constexpr uint32_t Concat(uint32_t first, uint32_t second) {
  return first << 6 | second;
}
constexpr uint32_t PortKeyType(uint32_t address) {
  return Concat(Concat(Concat(kTypeLink, kTypeProtocol), kTypeService), address);
}
constexpr uint32_t kPortKeySize = 12;  // link, protocol, port, each in a register of its own

constexpr uint32_t kMaxSlots = kMaxSlot + 1;
constexpr uint32_t kMaxLearned = 1 << 20;
constexpr uint32_t kLogRateSeconds = 60;

const char* Of(bool ipv6, const char* set4, const char* set6) {
  return ipv6 ? set6 : set4;
}

template <typename T>
void Append(KeyBytes& key, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  key.insert(key.end(), bytes, bytes + sizeof value);
}

KeyBytes LinkKey(uint32_t instance, uint32_t slot) {
  KeyBytes key;
  Append(key, static_cast<uint32_t>(HostIfindex(instance, slot)));
  return key;
}

// Appends protocol and port as the rules load them: in the first bytes of their registers.
void AppendPort(KeyBytes& key, PortKey port) {
  const uint8_t protocol = port.transport == Transport::kTcp ? IPPROTO_TCP : IPPROTO_UDP;
  key.insert(key.end(), {protocol, 0, 0, 0});
  key.insert(key.end(),
             {static_cast<uint8_t>(port.port >> 8), static_cast<uint8_t>(port.port & 0xff), 0, 0});
}

void AppendAddress(KeyBytes& key, const IpAddress& address) {
  const auto bytes = address.span();
  key.insert(key.end(), bytes.begin(), bytes.end());
}

// Returns the key after the last one of a range. The carry may reach the link's bytes, which the
// set treats like any others.
KeyBytes KeyAfter(KeyBytes key) {
  for (size_t i = key.size(); i-- > 0;) {
    if (++key[i] != 0) break;
  }
  return key;
}

// Elements by the name of their map.
using MapElements = std::map<const char*, std::vector<Element>>;

void AddRange(MapElements& elements, const KeyBytes& prefix, bool with_port,
              const AddressRange& range, bool with_data) {
  const bool ipv6 = range.first.ipv6;
  const bool single = range.first == range.last;
  Element first;
  first.key.reserve(prefix.size() + 16);
  first.key = prefix;
  AppendAddress(first.key, range.first);
  if (with_data) Append(first.data, static_cast<uint32_t>(range.action));
  if (single) {
    const char* map =
        with_port ? Of(ipv6, kPortMap4, kPortMap6) : Of(ipv6, kAddressMap4, kAddressMap6);
    elements[map].push_back(std::move(first));
    return;
  }
  Element end;
  end.key = prefix;
  AppendAddress(end.key, range.last);
  end.key = KeyAfter(std::move(end.key));
  end.interval_end = true;
  const char* map = with_port ? Of(ipv6, kPortRangeMap4, kPortRangeMap6)
                              : Of(ipv6, kAddressRangeMap4, kAddressRangeMap6);
  elements[map].push_back(std::move(first));
  elements[map].push_back(std::move(end));
}

struct Difference {
  MapElements gone, fresh;
};

void Compare(Difference& difference, const KeyBytes& prefix, bool with_port,
             const Egress::Ranges& before, const Egress::Ranges& after) {
  auto old = before.begin();
  auto now = after.begin();
  while (old != before.end() || now != after.end()) {
    if (now == after.end() || (old != before.end() && *old < *now)) {
      AddRange(difference.gone, prefix, with_port, *old++, false);  // deletions need no data
    } else if (old == before.end() || *now < *old) {
      AddRange(difference.fresh, prefix, with_port, *now++, true);
    } else {
      ++old;
      ++now;
    }
  }
}

// Returns the elements by which the verdicts of two policies on addresses differ.
Difference DifferenceOf(uint32_t instance, uint32_t slot, const Egress* before,
                        const Egress* after) {
  static const Egress::Ranges kNone;
  Difference difference;
  const KeyBytes link = LinkKey(instance, slot);
  Compare(difference, link, false, before ? before->ranges() : kNone,
          after ? after->ranges() : kNone);
  std::map<PortKey, std::pair<const Egress::Ranges*, const Egress::Ranges*>> ports;
  const auto collect = [&](const Egress* egress, auto member) {
    if (egress == nullptr) return;
    for (const auto& [port, ranges] : egress->port_ranges()) {
      ports.try_emplace(port, &kNone, &kNone).first->second.*member = &ranges;
    }
  };
  using Pair = decltype(ports)::mapped_type;
  collect(before, &Pair::first);
  collect(after, &Pair::second);
  for (const auto& [port, ranges] : ports) {
    KeyBytes prefix = link;
    AppendPort(prefix, port);
    Compare(difference, prefix, true, *ranges.first, *ranges.second);
  }
  return difference;
}

KeyBytes LearnedKeyBytes(uint32_t instance, uint32_t slot, const LearnedKey& learned) {
  KeyBytes key = LinkKey(instance, slot);
  if (learned.port) AppendPort(key, *learned.port);
  AppendAddress(key, learned.address);
  return key;
}

const char* LearnedSet(const LearnedKey& key) {
  if (key.port) return Of(key.address.ipv6, kLearnedPortSet4, kLearnedPortSet6);
  return Of(key.address.ipv6, kLearnedSet4, kLearnedSet6);
}

std::set<std::string_view> FlagsOf(const Egress* egress) {
  if (egress == nullptr) return {};
  std::set<std::string_view> flags{kPolicedSet};
  if (egress->default_action() == Action::kAllow) flags.insert(kByDefaultSet);
  if (egress->has_names()) flags.insert(kProxiedSet);
  return flags;
}

KeyBytes MemberKey(uint32_t network, std::span<const uint8_t> address) {
  KeyBytes key;
  Append(key, network);
  key.insert(key.end(), address.begin(), address.end());
  return key;
}

}  // namespace

void AddPolicySets(NftTransaction& t) {
  for (const char* name : {kPolicedSet, kByDefaultSet, kProxiedSet}) {
    t.AddSet({.name = name, .key_type = kTypeLink, .key_size = 4, .capacity = kMaxSlots});
  }
  t.AddSet({.name = kDeniedSet,
            .key_type = kTypeLink,
            .key_size = 4,
            .capacity = kMaxSlots,
            .counts = true});
  for (const bool ipv6 : {false, true}) {
    const uint32_t address = ipv6 ? 16 : 4;
    const uint32_t type = ipv6 ? kTypeIpv6 : kTypeIpv4;
    t.AddSet({.name = Of(ipv6, kAddressMap4, kAddressMap6),
              .key_type = Concat(kTypeLink, type),
              .key_size = 4 + address,
              .data_size = 4});
    t.AddSet({.name = Of(ipv6, kPortMap4, kPortMap6),
              .key_type = PortKeyType(type),
              .key_size = kPortKeySize + address,
              .data_size = 4});
    t.AddSet({.name = Of(ipv6, kAddressRangeMap4, kAddressRangeMap6),
              .key_type = kTypeInteger,
              .key_size = 4 + address,
              .interval = true,
              .data_size = 4});
    t.AddSet({.name = Of(ipv6, kPortRangeMap4, kPortRangeMap6),
              .key_type = kTypeInteger,
              .key_size = kPortKeySize + address,
              .interval = true,
              .data_size = 4});
    t.AddSet({.name = Of(ipv6, kLearnedSet4, kLearnedSet6),
              .key_type = Concat(kTypeLink, type),
              .key_size = 4 + address,
              .capacity = kMaxLearned,
              .expires = true});
    t.AddSet({.name = Of(ipv6, kLearnedPortSet4, kLearnedPortSet6),
              .key_type = PortKeyType(type),
              .key_size = kPortKeySize + address,
              .capacity = kMaxLearned,
              .expires = true});
    t.AddSet({.name = Of(ipv6, kMemberSet4, kMemberSet6),
              .key_type = Concat(kTypeMark, type),
              .key_size = 4 + address,
              .capacity = kMaxSlots});
  }
  t.AddSet({.name = kNetworkMap,
            .key_type = kTypeLink,
            .key_size = 4,
            .capacity = kMaxSlots,
            .data_size = 4});
  for (const char* name : {kLogRateSet, kFlowRateSet, kGatewayFlowRateSet}) {
    t.AddSet({.name = name,
              .key_type = kTypeLink,
              .key_size = 4,
              .capacity = kMaxSlots,
              .expires = true,
              .dynamic = true});
  }
  t.AddSet({.name = kConnectionSet,
            .key_type = Concat(kTypeLink, kTypeMark),
            .key_size = 8,
            .capacity = kMaxSlots * kMostConnectionLists,
            .dynamic = true});
}

void FlushPolicySets(NftTransaction& t) {
  for (const char* name : {kPolicedSet, kByDefaultSet, kProxiedSet, kAddressMap4, kAddressMap6,
                           kPortMap4, kPortMap6, kAddressRangeMap4, kAddressRangeMap6,
                           kPortRangeMap4, kPortRangeMap6, kMemberSet4, kMemberSet6, kNetworkMap}) {
    t.FlushSet(name);
  }
}

void ChangePolicyElements(NftTransaction& t, uint32_t instance, uint32_t slot, const Egress* before,
                          const Egress* after) {
  const Difference difference = DifferenceOf(instance, slot, before, after);
  for (const auto& [map, elements] : difference.gone) t.DeleteElements(map, elements);
  for (const auto& [map, elements] : difference.fresh) t.AddElements(map, elements);
  const auto old = FlagsOf(before), now = FlagsOf(after);
  for (const std::string_view flag : old) {
    if (!now.contains(flag)) t.DeleteElement(std::string(flag), LinkKey(instance, slot));
  }
  for (const std::string_view flag : now) {
    if (!old.contains(flag)) t.AddElement(std::string(flag), LinkKey(instance, slot));
  }
}

void AddPolicyRanges(NftTransaction& t, uint32_t instance, uint32_t slot, const Egress* egress) {
  for (const auto& [map, elements] : DifferenceOf(instance, slot, nullptr, egress).fresh) {
    t.AddElements(map, elements);
  }
}

void AddPolicyFlags(NftTransaction& t, uint32_t instance, uint32_t slot, const Egress* egress) {
  for (const std::string_view flag : FlagsOf(egress)) {
    t.AddElement(std::string(flag), LinkKey(instance, slot));
  }
}

void AddMember(NftTransaction& t, uint32_t instance, uint32_t slot, uint32_t network) {
  Element element;
  element.key = LinkKey(instance, slot);
  Append(element.data, network);
  t.AddElements(kNetworkMap, {&element, 1});
  t.AddElement(kMemberSet4, MemberKey(network, SlotIpv4(instance, slot)));
  t.AddElement(kMemberSet6, MemberKey(network, SlotIpv6(instance, slot)));
}

void DeleteMember(NftTransaction& t, uint32_t instance, uint32_t slot, uint32_t network) {
  t.DeleteElement(kNetworkMap, LinkKey(instance, slot));
  t.DeleteElement(kMemberSet4, MemberKey(network, SlotIpv4(instance, slot)));
  t.DeleteElement(kMemberSet6, MemberKey(network, SlotIpv6(instance, slot)));
}

void AddDeniedElement(NftTransaction& t, uint32_t instance, uint32_t slot) {
  t.AddElement(kDeniedSet, LinkKey(instance, slot));
}

void DeleteDeniedElement(NftTransaction& t, uint32_t instance, uint32_t slot) {
  t.DeleteElement(kDeniedSet, LinkKey(instance, slot));
}

void AddLearned(NftTransaction& t, uint32_t instance, uint32_t slot, const LearnedKey& key,
                uint32_t timeout_seconds) {
  Element element;
  element.key = LearnedKeyBytes(instance, slot, key);
  element.timeout_seconds = timeout_seconds;
  t.AddElements(LearnedSet(key), {&element, 1});
}

void DeleteLearned(NftTransaction& t, uint32_t instance, uint32_t slot, const LearnedKey& key) {
  t.DeleteElement(LearnedSet(key), LearnedKeyBytes(instance, slot, key));
}

namespace {

// The reverse of LearnedKeyBytes. Empty if the key is of another instance.
std::optional<std::pair<uint32_t, LearnedKey>> ParseLearnedKey(uint32_t instance,
                                                               std::span<const uint8_t> key,
                                                               bool with_port, bool ipv6) {
  const size_t address = with_port ? kPortKeySize : 4;
  if (key.size() != address + (ipv6 ? 16 : 4)) return std::nullopt;
  uint32_t ifindex;
  std::memcpy(&ifindex, key.data(), sizeof ifindex);
  const auto slot = SlotOfIfindex(instance, ifindex);
  if (!slot) return std::nullopt;
  LearnedKey learned;
  learned.address = IpAddress::FromBytes(key.subspan(address));
  if (with_port) {
    learned.port = PortKey{key[4] == IPPROTO_TCP ? Transport::kTcp : Transport::kUdp,
                           static_cast<uint16_t>(key[8] << 8 | key[9])};
  }
  return std::pair(*slot, learned);
}

}  // namespace

Status ListLearned(
    int nfnetlink, uint32_t instance,
    const std::function<void(uint32_t slot, const LearnedKey& key, int64_t left_us)>& on_element) {
  for (const bool ipv6 : {false, true}) {
    for (const bool with_port : {false, true}) {
      const char* set = with_port ? Of(ipv6, kLearnedPortSet4, kLearnedPortSet6)
                                  : Of(ipv6, kLearnedSet4, kLearnedSet6);
      ATOLL_TRY(
          ListElements(nfnetlink, TableName(instance), set, [&](const ListedElement& element) {
            const auto learned = ParseLearnedKey(instance, element.key, with_port, ipv6);
            if (learned) {
              on_element(learned->first, learned->second,
                         static_cast<int64_t>(element.expires_in_ms) * 1000);
            }
          }));
    }
  }
  return {};
}

Status ListDenied(int nfnetlink, uint32_t instance,
                  const std::function<void(uint32_t slot, uint64_t packets)>& on_slot) {
  return ListElements(nfnetlink, TableName(instance), kDeniedSet,
                      [&](const ListedElement& element) {
                        uint32_t ifindex = 0;
                        if (element.key.size() != sizeof ifindex) return;
                        std::memcpy(&ifindex, element.key.data(), sizeof ifindex);
                        const auto slot = SlotOfIfindex(instance, ifindex);
                        if (slot) on_slot(*slot, element.packets);
                      });
}

}  // namespace atl::netpolicy
