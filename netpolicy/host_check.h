// Reports what sandbox networking needs from the host and what on the host would block it, for
// `atoll doctor`. Reads only.
//
// Thread rule: stateless; blocks for some milliseconds.
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
  std::string fix;   // advice to the operator; empty if none
};

// Runs all checks. Needs CAP_NET_ADMIN; without it, the only finding says so.
std::vector<HostFinding> CheckHost(uint32_t instance);

// An nftables base chain of any table, as the kernel lists it.
struct ListedChain {
  std::string family;  // "ip", "ip6", "inet"; others are not listed
  std::string table;
  std::string name;
  uint32_t hook;  // NF_INET_…
  bool drops;     // its policy is drop
};
Result<std::vector<ListedChain>> ListBaseChains(int nfnetlink);

// Returns a finding for each chain of another program that drops packets on the path of sandbox
// traffic.
std::vector<HostFinding> JudgeChains(const std::vector<ListedChain>& chains, uint32_t instance);

}  // namespace atl::netpolicy
