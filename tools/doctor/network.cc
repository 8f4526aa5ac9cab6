#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netpolicy/forwarding.h"
#include "netpolicy/netlink.h"
#include "netpolicy/nft.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/child.h"

namespace atl::doctor {
namespace {

constexpr char kAsRoot[] = "run: sudo atoll doctor";

// In a network namespace of the probe's own, so the host's tables and links stay as they are.
Status TryNftables() {
  ATOLL_ASSIGN(const UniqueFd socket, netpolicy::OpenNetlink(NETLINK_NETFILTER));
  netpolicy::NftTransaction transaction("atoll_probe");
  transaction.AddTable();
  transaction.AddBaseChain("forward", {"filter", 2, 0});
  transaction.AddBaseChain("nat", {"nat", 4, 100});
  return transaction.Commit(socket.get());
}

Status TryVeth() {
  ATOLL_ASSIGN(const UniqueFd socket, netpolicy::OpenNetlink(NETLINK_ROUTE));
  netpolicy::NetlinkBatch batch;
  batch.Begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, "RTM_NEWLINK veth");
  batch.Header(ifinfomsg{});
  batch.PutString(IFLA_IFNAME, "probe");
  {
    auto info = batch.OpenNest(IFLA_LINKINFO);
    batch.PutString(IFLA_INFO_KIND, "veth");
  }
  return netpolicy::Exchange(socket.get(), batch);
}

}  // namespace

Finding CheckNftables() {
  if (geteuid() != 0) return Warning("nftables", "not checked", kAsRoot);
  const Status tried = RunInNamespaces(CLONE_NEWNET, TryNftables);
  if (tried) return Ok("nftables", "rules and NAT can be set");
  return Missing(
      "nftables", tried.error().message(),
      "run: modprobe nf_tables nft_chain_nat (kernel: CONFIG_NF_TABLES_INET, CONFIG_NFT_NAT)");
}

Finding CheckVeth() {
  if (geteuid() != 0) return Warning("veth", "not checked", kAsRoot);
  const Status tried = RunInNamespaces(CLONE_NEWNET, TryVeth);
  if (tried) return Ok("veth", "links can be made");
  return Missing("veth", tried.error().message(), "run: modprobe veth (kernel: CONFIG_VETH)");
}

Finding CheckIpv6() {
  if (netpolicy::Ipv6Available()) return Ok("ipv6", "available");
  return Warning("ipv6", "switched off: sandboxes get IPv4 only",
                 "run: sysctl -w net.ipv6.conf.all.disable_ipv6=0 "
                 "net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0");
}

Finding CheckForwarding() {
  const netpolicy::Forwarding forwarding = netpolicy::ReadForwarding();
  if (forwarding.ipv4) return Ok("forwarding", "on");
  // The daemon turns it on when it starts and needs no help.
  return Ok("forwarding", "off; the daemon turns it on when it starts");
}

}  // namespace atl::doctor
