#include "netpolicy/rules/barrier.h"

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>

#include "netpolicy/address/addresses.h"

namespace atl::netpolicy {

void AddBarrier(NftTransaction& t, uint32_t instance) {
  const std::string links = LinkPrefix(instance);
  // The barrier's chains run right after those of the main table. The bit is cleared after every
  // barrier has seen it.
  constexpr int32_t kJudge = NF_IP_PRI_FILTER + 1, kDone = kJudge + 1;
  t.AddOwnedTable();
  t.AddBaseChain("input", {"filter", NF_INET_LOCAL_IN, kJudge});
  t.AddBaseChain("forward", {"filter", NF_INET_FORWARD, kJudge});
  t.AddBaseChain("input_done", {"filter", NF_INET_LOCAL_IN, kDone});
  t.AddBaseChain("forward_done", {"filter", NF_INET_FORWARD, kDone});
  t.FlushRules();
  t.AddRule("input", "from a sandbox").InFrom(links).MarkLacks(kPassedBit).Drop();
  t.AddRule("forward", "from a sandbox").InFrom(links).MarkLacks(kPassedBit).Drop();
  t.AddRule("forward", "to a sandbox").OutTo(links).MarkLacks(kPassedBit).Drop();
  t.AddRule("input_done", "from a sandbox").InFrom(links).ClearMarkBits(kPassedBit).Continue();
  t.AddRule("forward_done", "from a sandbox").InFrom(links).ClearMarkBits(kPassedBit).Continue();
  t.AddRule("forward_done", "to a sandbox").OutTo(links).ClearMarkBits(kPassedBit).Continue();
}

}  // namespace atl::netpolicy
