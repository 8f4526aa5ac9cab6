// What a host offers to sandbox networking, and what on it would stand in the way: for `atoll
// doctor`. Reads only.
//
// Thread rule: stateless; may take some milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netpolicy/rules/nft.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

struct HostFinding {
  enum class Level {
    kOk,
    kWarning,  // works, but see `fix`
    kBlocked,  // sandboxes will have no network, or atolld will not start
  };
  Level level;
  std::string what;  // one line
  std::string fix;   // what to do; empty if nothing
};

// Needs CAP_NET_ADMIN; without it the one finding says so.
std::vector<HostFinding> CheckHost(uint32_t instance);

// A base chain as the kernel lists it, of any table.
struct ListedChain {
  std::string family;  // "ip", "ip6", "inet"; others are not listed
  std::string table;
  std::string name;
  uint32_t hook;  // NF_INET_…
  bool drops;     // its policy
};
Result<std::vector<ListedChain>> ListBaseChains(int nfnetlink);

// What to say about foreign chains: those that end in a drop on the way of sandbox packets.
std::vector<HostFinding> JudgeChains(const std::vector<ListedChain>& chains, uint32_t instance);

}  // namespace atl::netpolicy
