#include "netpolicy/rules/barrier.h"

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>

#include "netpolicy/addresses.h"

namespace atl::netpolicy {

void AddBarrier(NftTransaction& t, uint32_t instance) {
  const std::string links = LinkPrefix(instance);
  // Right after the table's own chains.
  constexpr int32_t kPriority = NF_IP_PRI_FILTER + 1;
  t.AddOwnedTable();
  t.AddBaseChain("input", {"filter", NF_INET_LOCAL_IN, kPriority});
  t.AddBaseChain("forward", {"filter", NF_INET_FORWARD, kPriority});
  t.AddChain("passed");
  t.FlushRules();
  t.AddRule("input", "from a sandbox").InFrom(links).Goto("passed");
  t.AddRule("forward", "from a sandbox").InFrom(links).Goto("passed");
  t.AddRule("forward", "to a sandbox").OutTo(links).Goto("passed");
  t.AddRule("passed", "not judged").MarkLacks(kPassedBit).Drop();
  t.AddRule("passed", "judged").ClearMarkBits(kPassedBit).Continue();
}

}  // namespace atl::netpolicy
