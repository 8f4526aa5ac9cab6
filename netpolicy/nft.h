// nf_tables transactions as netlink messages: tables, chains, sets, elements and rules, of the few
// kinds that our table consists of.
//
// Thread rule: builds a batch, no shared state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/netlink.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

// One transaction on a table of family inet. It takes effect as a whole in Commit, or not at all.
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
    uint32_t key_type;  // as nft(8) numbers data types; only for its listings
    uint32_t key_size;
    bool interval = false;
    uint32_t capacity = 0;  // 0: no limit
  };
  // All of them leave alone what exists already.
  void AddTable();
  void AddChain(const std::string& chain);
  void AddBaseChain(const std::string& chain, const BaseChain& base);
  void AddSet(const SetSpec& set);

  void DeleteTable();
  void FlushRules();  // of all chains of the table
  void FlushSet(const std::string& set);
  void AddElement(const std::string& set, std::span<const uint8_t> key);
  void DeleteElement(const std::string& set, std::span<const uint8_t> key);
  struct Interval {
    std::vector<uint8_t> first;
    std::vector<uint8_t> end;  // the first key after it; empty: none
  };
  void AddIntervals(const std::string& set, const std::vector<Interval>& intervals);

  // Appends a rule; `comment` shows in `nft list`.
  class Rule;
  Rule AddRule(const std::string& chain, std::string_view comment);

  Status Commit(int nfnetlink);
  // Lets the kernel check everything, then forget it.
  Status Check(int nfnetlink);

 private:
  friend class Rule;
  void Begin(uint16_t type, uint16_t flags, const std::string& what);
  void PutElement(std::span<const uint8_t> key, uint32_t flags);

  std::string table_;
  uint32_t next_set_id_ = 1;
  NetlinkBatch batch_;
};

// The statements of a rule, in order; each returns the rule so that they read like one. It ends
// when the object dies.
class NftTransaction::Rule {
 public:
  Rule(NetlinkBatch* batch, std::string_view comment);
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;
  ~Rule();

  // Matches on the interface that the packet came in by or goes out by; `prefix` as "atl0-".
  Rule& InFrom(std::string_view prefix);
  Rule& InNotFrom(std::string_view prefix);
  Rule& OutTo(std::string_view prefix);
  Rule& OutNotTo(std::string_view prefix);

  Rule& IsIpv4();
  Rule& IsIpv6();
  // After IsIpv4 or IsIpv6: the whole address, or its leading `prefix_bytes`.
  Rule& Source(std::span<const uint8_t> leading, bool ipv6);
  Rule& Destination(std::span<const uint8_t> leading, bool ipv6);
  Rule& DestinationIn(const std::string& set, bool ipv6);
  // (input interface, source address, source MAC) is in the set.
  Rule& LinkSourceIn(const std::string& set, bool ipv6);
  // Any address of this host, wherever it is.
  Rule& DestinationIsLocal();

  Rule& Protocol(uint8_t l4proto);
  Rule& DestinationPort(uint16_t port);
  Rule& IcmpType(uint8_t type);
  // A mask of kCt….
  Rule& ConnectionState(uint32_t mask);

  void Accept();
  void Drop();
  // ICMP "administratively prohibited".
  void Reject();
  // For TCP.
  void Reset();
  void Jump(const std::string& chain);
  void Goto(const std::string& chain);
  void Masquerade();

 private:
  template <typename F>
  void Expression(const char* name, const F& put_data);
  void Meta(uint32_t key, uint32_t reg);
  void Compare(uint32_t op, std::span<const uint8_t> value);
  void InterfaceName(uint32_t key, uint32_t op, std::string_view prefix);
  void Payload(uint32_t base, uint32_t offset, uint32_t size, uint32_t reg);
  void Lookup(const std::string& set, uint32_t reg);
  void Verdict(int32_t code, const std::string& chain);

  NetlinkBatch* batch_;
  std::string comment_;
  std::optional<NetlinkBatch::Nest> expressions_;
};

// Connection states, bits of the kernel's ct state register.
inline constexpr uint32_t kCtInvalid = 1;
inline constexpr uint32_t kCtEstablished = 2;
inline constexpr uint32_t kCtRelated = 4;

}  // namespace atl::netpolicy
