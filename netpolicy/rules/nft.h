// Builds nf_tables transactions as netlink messages: tables, chains, sets, elements and rules of
// the few kinds that our tables use.
//
// Thread rule: builds a batch, no shared state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/link/netlink.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// The numbers by which nft(8) shows data types. A concatenation has 6 bits for each.
inline constexpr uint32_t kTypeInteger = 4, kTypeIpv4 = 7, kTypeIpv6 = 8, kTypeMac = 9,
                          kTypeProtocol = 12, kTypeService = 13, kTypeMark = 19, kTypeLink = 20,
                          kTypeIfname = 41;

// A transaction on one table of family inet. Commit applies it as a whole or not at all.
class NftTransaction {
 public:
  explicit NftTransaction(std::string table);

  struct BaseChain {
    const char* type;  // "filter" or "nat"
    uint32_t hook;     // NF_INET_…
    int32_t priority;
  };
  struct SetSpec {
    std::string name;
    uint32_t key_type;  // kType…
    uint32_t key_size;
    bool interval = false;
    uint32_t capacity = 0;   // 0: no limit
    uint32_t data_size = 0;  // not 0: the set is a map
    bool expires = false;    // elements may have a timeout
    bool dynamic = false;    // rules add elements
    bool counts = false;     // each element counts its matches
  };
  // The Add functions keep what already exists.
  void AddTable();
  // Adds a table that is owned by the socket that commits this: no other socket can change, delete
  // or flush it, and it disappears when the socket is closed.
  void AddOwnedTable();
  void AddChain(const std::string& chain);
  void AddBaseChain(const std::string& chain, const BaseChain& base);
  void AddSet(const SetSpec& set);

  void DeleteTable();
  void FlushRules();  // rules of all chains of the table
  void FlushSet(const std::string& set);
  void AddElement(const std::string& set, std::span<const uint8_t> key);
  void DeleteElement(const std::string& set, std::span<const uint8_t> key);

  struct Element {
    std::vector<uint8_t> key;
    std::vector<uint8_t> data;     // value, for a map
    bool interval_end = false;     // marks the first key after an interval
    uint32_t timeout_seconds = 0;  // 0: none
  };
  // Append as many messages as needed.
  void AddElements(const std::string& set, std::span<const Element> elements);
  void DeleteElements(const std::string& set, std::span<const Element> elements);

  // Appends a rule. `comment` is shown by `nft list`.
  class Rule;
  Rule AddRule(const std::string& chain, std::string_view comment);

  // Returns true if nothing was added.
  bool empty() const { return batch_.message_count() == 1; }
  // Returns true if the transaction must be committed before more is added. Netlink's buffer holds
  // twice as much.
  bool full() const { return batch_.size() >= 4 << 20; }

  Status Commit(int nfnetlink);
  // Lets the kernel validate everything, without applying it.
  Status Check(int nfnetlink);

 private:
  friend class Rule;
  void Begin(uint16_t type, uint16_t flags, const std::string& what);
  void PutElement(const Element& element);
  void PutElements(uint16_t type, uint16_t flags, const std::string& what, const std::string& set,
                   std::span<const Element> elements);

  std::string table_;
  uint32_t next_set_id_ = 1;
  NetlinkBatch batch_;
};

// The statements of a rule, in order. Each returns the rule, so that they can be chained. The rule
// ends when the object is destroyed.
class NftTransaction::Rule {
 public:
  Rule(NetlinkBatch* batch, std::string_view comment);
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  ~Rule();

  // Match on the interface that the packet came in by or goes out by. `prefix`: such as "atl0-".
  Rule& InFrom(std::string_view prefix);
  Rule& InNotFrom(std::string_view prefix);
  Rule& OutTo(std::string_view prefix);
  Rule& OutNotTo(std::string_view prefix);

  Rule& IsIpv4();
  Rule& IsIpv6();
  // Match the whole address, or its leading bytes. Use after IsIpv4 or IsIpv6.
  Rule& Source(std::span<const uint8_t> leading, bool ipv6);
  Rule& Destination(std::span<const uint8_t> leading, bool ipv6);
  Rule& DestinationIn(const std::string& set, bool ipv6);
  // Matches if (input interface, source address, source MAC) is in the set.
  Rule& LinkSourceIn(const std::string& set, bool ipv6);
  // Matches any address of this host.
  Rule& DestinationIsLocal();

  // Lookups with a key in consecutive 4-byte registers, which begins with the input interface.
  Rule& InIn(const std::string& set);
  Rule& InNotIn(const std::string& set);
  // Matches if (input interface, destination) is in the set. For a map `value` is needed, because
  // Linux 6.1 cannot look up in a map without loading the value; 0 matches any value.
  Rule& InDestinationIn(const std::string& set, bool ipv6, std::optional<uint32_t> value = {});
  // Matches if (input interface, protocol, destination port, destination) is in the set.
  // `any_port`: looks up with port 0.
  Rule& InPortDestinationIn(const std::string& set, bool ipv6, bool any_port,
                            std::optional<uint32_t> value = {});
  Rule& Mark(uint32_t mark);
  // Change or test single bits of the packet's mark; other bits are kept.
  Rule& SetMarkBits(uint32_t bits);
  Rule& ClearMarkBits(uint32_t bits);
  Rule& MarkLacks(uint32_t bits);
  // Sets the packet's mark to the value that the map holds for the input interface, if there is
  // one.
  Rule& MarkByIn(const std::string& map);
  // Matches if (mark, destination) is in the set. The map is not looked up directly, because nft(8)
  // 1.0.6 aborts when it lists a lookup with a map in its key.
  Rule& MarkDestinationIn(const std::string& set, bool ipv6);

  Rule& Protocol(uint8_t l4proto);
  Rule& DestinationPort(uint16_t port);
  Rule& IcmpType(uint8_t type);
  // `mask`: a combination of kCt….
  Rule& ConnectionState(uint32_t mask);
  // Matches if the destination was translated.
  Rule& DestinationTranslated();
  // Match up to the given rate for each input interface, or only above it. The dynamic set keeps
  // the state.
  Rule& InRate(const std::string& set, uint32_t per_second, uint32_t burst);
  Rule& InRateOver(const std::string& set, uint32_t per_second, uint32_t burst);
  // Matches if the input interface has more than `connections`. The dynamic set counts them by
  // (input interface, a number below kMostConnectionLists). Above some hundred connections this is
  // an upper bound: they are spread by chance over several lists, and the first full list refuses,
  // typically at four fifths of the limit.
  Rule& InConnectionsOver(const std::string& set, uint32_t connections);
  // Sends the packet's first bytes to the nfnetlink_log group.
  Rule& Log(uint16_t group);

  void Accept();
  void Drop();
  // Answers with ICMP "administratively prohibited".
  void Reject();
  // Answers with a TCP reset.
  void Reset();
  void Jump(const std::string& chain);
  void Goto(const std::string& chain);
  void Masquerade();
  void TranslateDestination(std::span<const uint8_t> address, bool ipv6, uint16_t port);
  void Continue() {}

 private:
  template <typename F>
  void Expression(const char* name, const F& put_data);
  void Meta(uint32_t key, uint32_t reg);
  void Compare(uint32_t op, std::span<const uint8_t> value);
  void InterfaceName(uint32_t key, uint32_t op, std::string_view prefix);
  void Payload(uint32_t base, uint32_t offset, uint32_t size, uint32_t reg);
  void Lookup(const std::string& set, uint32_t reg, bool inverted = false);
  void LookupValue(const std::string& map, uint32_t reg, uint32_t value_reg);
  void LookupOrCompare(const std::string& set, std::optional<uint32_t> value);
  void SetMark(uint32_t reg);
  void Immediate(uint32_t reg, std::span<const uint8_t> bytes);
  void Tracked(uint32_t key, uint32_t reg);
  void BitsSet(uint32_t key, uint32_t mask);
  void Bitwise(uint32_t reg, uint32_t mask, uint32_t bits);  // register = register & mask ^ bits
  Rule& Limit(const std::string& set, uint32_t per_second, uint32_t burst, uint32_t flags);
  template <typename F>
  void UpdateSet(const std::string& set, uint32_t operation, const char* name, const F& put_data);
  void Verdict(int32_t code, const std::string& chain);

  NetlinkBatch* batch_;
  std::string comment_;
  std::optional<NetlinkBatch::Nest> expressions_;
};

// An element as the kernel lists it. The key is borrowed during the call.
struct ListedElement {
  std::span<const uint8_t> key;
  uint64_t expires_in_ms = 0;  // 0: never
  uint64_t packets = 0;        // number of matches, if the set counts
};
Status ListElements(int nfnetlink, const std::string& table, const std::string& set,
                    const std::function<void(const ListedElement&)>& on_element);

inline constexpr uint32_t kMostConnectionLists = 32;

// Connection states: bits of the kernel's ct state register.
inline constexpr uint32_t kCtInvalid = 1;
inline constexpr uint32_t kCtEstablished = 2;
inline constexpr uint32_t kCtRelated = 4;
inline constexpr uint32_t kCtNew = 8;

}  // namespace atl::netpolicy
