#include "netpolicy/host_check.h"

#include <linux/if_link.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "netpolicy/address/addresses.h"
#include "netpolicy/link/forwarding.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/rules/ruleset.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

using Level = HostFinding::Level;

const char* FamilyName(uint8_t family) {
  switch (family) {
    case NFPROTO_INET:
      return "inet";
    case NFPROTO_IPV4:
      return "ip";
    case NFPROTO_IPV6:
      return "ip6";
    default:
      return nullptr;  // routed packets do not pass bridge, arp and netdev chains
  }
}

// Sends the table that Open would install to the kernel, which validates it, and aborts the
// transaction. If the kernel lacks an expression, the error names the rule that needs it.
HostFinding CheckRules(int nfnetlink, uint32_t instance) {
  NftTransaction table(TableName(instance));
  AddRulesetAnew(table, RulesetConfig{.instance = instance,
                                      .guarded = DefaultPrivate(),
                                      .proxy_port = 1,
                                      .log_group = 1,
                                      .max_connections = 1});
  const Status checked = table.Check(nfnetlink);
  if (checked) return {Level::kOk, "nf_tables: supports all rules", ""};
  return {
      Level::kBlocked, "nf_tables: " + checked.error().message(),
      "load the kernel modules nf_tables, nft_ct, nft_masq, nft_nat, nft_fib_inet, "
      "nft_reject_inet, nft_limit, nft_connlimit, nft_log and nfnetlink_log, or use a kernel that "
      "has them"};
}

// Sends a request with an error that only the veth driver checks. EINVAL means that the driver is
// there, EOPNOTSUPP that it is missing. Nothing is created.
HostFinding CheckVeth(int rtnetlink) {
  NetlinkBatch batch;
  batch.Begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, "RTM_NEWLINK veth");
  batch.Header(ifinfomsg{});
  batch.Put(IFLA_ADDRESS, std::array<uint8_t, 1>{0});
  {
    auto info = batch.OpenNest(IFLA_LINKINFO);
    batch.PutString(IFLA_INFO_KIND, "veth");
  }
  const Status answer = Exchange(rtnetlink, batch);
  if (!answer && answer.error().error_number() == EOPNOTSUPP) {
    return {Level::kBlocked, "veth: not in this kernel", "load the kernel module veth"};
  }
  return {Level::kOk, "veth: present", ""};
}

HostFinding CheckForwarding() {
  const Forwarding now = ReadForwarding();
  if (now.ipv4 && (now.ipv6 || !Ipv6Available())) return {Level::kOk, "IP forwarding: on", ""};
  return {Level::kWarning, "IP forwarding: off", "atolld switches it on when it starts"};
}

HostFinding CheckIpv6() {
  if (Ipv6Available()) return {Level::kOk, "IPv6: available", ""};
  return {Level::kWarning, "IPv6: switched off, sandboxes will have IPv4 only",
          "sysctl net.ipv6.conf.default.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0"};
}

void CheckRouteLocalnet(std::vector<HostFinding>& findings) {
  const auto value = sys::ReadFileAt(AT_FDCWD, "/proc/sys/net/ipv4/conf/all/route_localnet", 16);
  if (!value || value->substr(0, 1) != "1") return;
  findings.push_back({Level::kWarning,
                      "route_localnet is on: 127.0.0.0/8 is routed, only rules keep it private",
                      "sysctl net.ipv4.conf.all.route_localnet=0"});
}

// Legacy iptables cannot be read over netlink. The kernel only lists that its table is loaded.
void CheckLegacyTables(std::vector<HostFinding>& findings) {
  for (const char* program : {"iptables", "ip6tables"}) {
    const std::string list =
        std::string("/proc/net/") + (program[2] == '6' ? "ip6" : "ip") + "_tables_names";
    const auto names = sys::ReadFileAt(AT_FDCWD, list, 4096);
    if (!names || ("\n" + *names).find("\nfilter\n") == std::string::npos) continue;
    findings.push_back({Level::kWarning,
                        std::string(program) + "-legacy: its filter table is loaded",
                        std::string("see that `") + program +
                            "-legacy -S FORWARD` does not drop what comes from sandboxes"});
  }
}

std::string FixFor(const ListedChain& chain, const std::string& links) {
  const bool forward = chain.hook == NF_INET_FORWARD;
  if (chain.table == "firewalld") {
    return "firewall-cmd --permanent --zone=trusted --add-interface=" + links +
           "+ && firewall-cmd --reload";
  }
  if (chain.table == "filter") {
    const std::string program = chain.family == "ip6" ? "ip6tables" : "iptables";
    if (forward) {
      return program + " -I " + chain.name + " -i " + links + "+ -j ACCEPT; " + program + " -I " +
             chain.name + " -o " + links +
             "+ -j ACCEPT (with docker: into DOCKER-USER; with ufw: ufw route allow in on " +
             links + "+ and out on " + links + "+)";
    }
    return program + " -I " + chain.name + " -i " + links +
           "+ -j ACCEPT (with ufw: ufw allow in on " + links + "+ to any port 53)";
  }
  return "accept \"iifname " + links + "*\"" + (forward ? " and \"oifname " + links + "*\"" : "") +
         " in chain " + chain.name + " of table " + chain.family + " " + chain.table;
}

}  // namespace

Result<std::vector<ListedChain>> ListBaseChains(int nfnetlink) {
  NetlinkBatch batch;
  batch.Begin(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP | NetlinkBatch::kNoAck,
              "nft list chains");
  batch.Header(nfgenmsg{});
  std::vector<ListedChain> chains;
  ATOLL_TRY(Dump(nfnetlink, batch, [&](const nlmsghdr* message) {
    const auto header = HeaderOf<nfgenmsg>(message);
    const char* family = FamilyName(header.nfgen_family);
    bool base = false;
    ListedChain chain{family ? family : "", "", "", 0, false};
    for (const Attribute& attribute : Attributes(message, sizeof header)) {
      if (attribute.type == NFTA_CHAIN_TABLE) chain.table = attribute.Text();
      if (attribute.type == NFTA_CHAIN_NAME) chain.name = attribute.Text();
      if (attribute.type == NFTA_CHAIN_POLICY) chain.drops = attribute.Be32() == NF_DROP;
      if (attribute.type != NFTA_CHAIN_HOOK) continue;
      base = true;
      for (const Attribute& hook : Attributes(attribute.bytes)) {
        if (hook.type == NFTA_HOOK_HOOKNUM) chain.hook = hook.Be32();
      }
    }
    if (base && family) chains.push_back(std::move(chain));
  }));
  return chains;
}

std::vector<HostFinding> JudgeChains(const std::vector<ListedChain>& chains, uint32_t instance) {
  std::vector<HostFinding> findings;
  const std::string links = LinkPrefix(instance);
  for (const ListedChain& chain : chains) {
    const bool forward = chain.hook == NF_INET_FORWARD;
    if (!forward && chain.hook != NF_INET_LOCAL_IN) continue;
    if (chain.table == TableName(instance) && chain.family == "inet") continue;
    // firewalld's policy is accept, but the last rule of its chain rejects.
    const bool firewalld = chain.table == "firewalld";
    if (!chain.drops && !firewalld) continue;
    findings.push_back({Level::kBlocked,
                        "foreign firewall: table " + chain.family + " " + chain.table + ", chain " +
                            chain.name + " drops unknown traffic: sandboxes have no " +
                            (forward ? "way out" : "name server"),
                        FixFor(chain, links)});
  }
  return findings;
}

std::vector<HostFinding> CheckHost(uint32_t instance) {
  std::vector<HostFinding> findings;
  const auto netfilter = OpenNetlink(NETLINK_NETFILTER);
  const auto route = OpenNetlink(NETLINK_ROUTE);
  if (!netfilter || !route) {
    const Error& error = netfilter ? route.error() : netfilter.error();
    findings.push_back({Level::kBlocked, error.message(),
                        "use a kernel with netlink, nf_tables and connection tracking"});
    return findings;
  }
  const auto chains = ListBaseChains(netfilter->get());
  if (!chains && chains.error().error_number() == EPERM) {
    findings.push_back(
        {Level::kWarning, "network: cannot be checked without CAP_NET_ADMIN", "run as root"});
    return findings;
  }
  findings.push_back(CheckRules(netfilter->get(), instance));
  findings.push_back(CheckVeth(route->get()));
  findings.push_back(CheckIpv6());
  findings.push_back(CheckForwarding());
  CheckRouteLocalnet(findings);
  if (chains) {
    for (HostFinding& finding : JudgeChains(*chains, instance)) {
      findings.push_back(std::move(finding));
    }
  }
  CheckLegacyTables(findings);
  return findings;
}

}  // namespace atl::netpolicy
