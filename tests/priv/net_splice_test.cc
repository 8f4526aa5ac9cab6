// The splice proxy's question to the kernel: the destination of a connection before a rule
// redirected it.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/splice/splice_proxy.h"
#include "runtime/base/unique_fd.h"
#include "tests/priv/net_lab.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;

// Returns the kernel's answer for a connection to `to` that is accepted on `listener`. Empty: no
// answer.
std::string OriginalOf(const UniqueFd& listener, const Endpoint& to) {
  const UniqueFd client(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.get(), to.get(), to.size), 0) << to.ToString();
  const UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(accepted.valid());
  const auto original = netpolicy::OriginalDestination(accepted.get());
  return original ? original->ToString() : "";
}

void ExpectOriginal(const std::string& own, const std::string& outside) {
  const UniqueFd listener = Listen(SOCK_STREAM, own, 8443);
  const Endpoint redirected = *netpolicy::ParseEndpoint(outside, 443);
  EXPECT_EQ(OriginalOf(listener, redirected), redirected.ToString());
  // No rule has redirected this connection. The kernel reports its own address, which the proxy
  // refuses.
  const Endpoint direct = *netpolicy::ParseEndpoint(own, 8443);
  EXPECT_EQ(OriginalOf(listener, direct), direct.ToString());
}

TEST(NetSplice, KnowsTheOriginalDestination) {
  RunInOwnNetns([] {
    const NetLab lab;  // provides addresses and routes
    Nft("add table inet t\n"
        "add chain inet t out { type nat hook output priority -100; }\n"
        "add rule inet t out ip daddr 203.0.113.2 tcp dport 443 dnat ip to 203.0.113.1:8443\n"
        "add rule inet t out ip6 daddr 2001:db8::2 tcp dport 443 dnat ip6 to [2001:db8::1]:8443\n");
    ExpectOriginal("203.0.113.1", "203.0.113.2");
    ExpectOriginal("2001:db8::1", "[2001:db8::2]");
  });
}

}  // namespace
}  // namespace atl::testing
