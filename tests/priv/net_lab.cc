#include "tests/priv/net_lab.h"

#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <nftables/libnftables.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/rules/barrier.h"
#include "runtime/base/sys.h"

namespace atl::testing {
namespace {

using netpolicy::Endpoint;
using netpolicy::NetlinkBatch;

// Fixed addresses, so that no test depends on the timing of neighbour discovery.
constexpr netpolicy::MacBytes kHostMac{2, 0, 0, 0, 0, 1};
constexpr netpolicy::MacBytes kOutsideMac{2, 0, 0, 0, 0, 2};
// Each end has its own index. Linux 6.1 takes up to a second to report the carrier of a link whose
// peer has the same index (linkwatch_urgent_event).
constexpr int kUplinkIfindex = 100;
constexpr int kOutsideIfindex = 200;

Endpoint Address(const std::string& address, uint16_t port = 0) {
  auto endpoint = netpolicy::ParseEndpoint(address, port);
  EXPECT_TRUE(endpoint.has_value()) << address;
  return *endpoint;
}

std::vector<uint8_t> Bytes(const std::string& address) {
  const std::string bytes = Address(address).AddressBytes();
  return {bytes.begin(), bytes.end()};
}

void Send(const NetlinkBatch& batch) {
  auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
  ASSERT_TRUE(socket.has_value());
  const Status sent = netpolicy::Exchange(socket->get(), batch);
  ASSERT_TRUE(sent.has_value()) << sent.error().message();
}

void SetUp(const std::string& link) {
  NetlinkBatch batch;
  batch.Begin(RTM_NEWLINK, 0, "up " + link);
  ifinfomsg header{};
  header.ifi_flags = header.ifi_change = IFF_UP;
  batch.Header(header);
  batch.PutString(IFLA_IFNAME, link);
  Send(batch);
}

void Settle(const std::string& link) {
  auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
  ASSERT_TRUE(socket.has_value());
  const int index = static_cast<int>(::if_nametoindex(link.c_str()));
  const Status able = netpolicy::AwaitCarrier(socket->get(), index, link, kCarrierMicros);
  ASSERT_TRUE(able.has_value()) << able.error().message();
}

void AddUplink(const NetNs& outside) {
  NetlinkBatch batch;
  batch.Begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, "uplink");
  ifinfomsg header{};
  header.ifi_index = kUplinkIfindex;
  batch.Header(header);
  batch.PutString(IFLA_IFNAME, "up0");
  batch.Put(IFLA_ADDRESS, kHostMac);
  {
    auto info = batch.OpenNest(IFLA_LINKINFO);
    batch.PutString(IFLA_INFO_KIND, "veth");
    auto data = batch.OpenNest(IFLA_INFO_DATA);
    auto peer = batch.OpenNest(VETH_INFO_PEER);
    header.ifi_index = kOutsideIfindex;
    batch.PutRaw(header);
    batch.PutString(IFLA_IFNAME, "ext0");
    batch.Put(IFLA_ADDRESS, kOutsideMac);
    batch.PutU32(IFLA_NET_NS_FD, static_cast<uint32_t>(outside.fd()));
  }
  Send(batch);
}

// Adds the local route at once. The kernel adds its own from a work queue, some time after the
// address.
void AddLocalRoute(const std::string& link, const std::vector<uint8_t>& address) {
  NetlinkBatch batch;
  batch.Begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, "local route on " + link);
  rtmsg header{};
  header.rtm_family = AF_INET6;
  header.rtm_dst_len = 128;
  header.rtm_table = RT_TABLE_LOCAL;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_type = RTN_LOCAL;
  batch.Header(header);
  batch.Put(RTA_DST, address);
  batch.PutU32(RTA_OIF, ::if_nametoindex(link.c_str()));
  Send(batch);
}

}  // namespace

void RunInOwnNetns(const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
      std::perror("unshare");
      ::_exit(2);
    }
    // /proc/sys/net shows the namespace of the reader. Nothing has to be mounted.
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    body();
    std::fflush(stdout);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child's failures are above";
}

NetNs::NetNs() {
  auto host = sys::Open("/proc/self/ns/net", O_RDONLY);
  EXPECT_TRUE(host.has_value());
  EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
  auto own = sys::Open("/proc/self/ns/net", O_RDONLY);
  EXPECT_TRUE(own.has_value());
  EXPECT_EQ(::setns(host->get(), CLONE_NEWNET), 0);
  fd_ = std::move(*own);
}

void NetNs::Run(const std::function<void()>& f) const {
  auto before = sys::Open("/proc/self/ns/net", O_RDONLY);
  ASSERT_TRUE(before.has_value());
  ASSERT_EQ(::setns(fd_.get(), CLONE_NEWNET), 0);
  f();
  ASSERT_EQ(::setns(before->get(), CLONE_NEWNET), 0);
}

NetLab::NetLab() {
  SetUp("lo");
  AddUplink(outside_);
  SetUp("up0");
  AddAddress("up0", "203.0.113.1", 24);
  AddAddress("up0", "2001:db8::1", 64);
  outside_.Run([] {
    SetUp("lo");
    SetUp("ext0");
    AddAddress("ext0", "203.0.113.2", 24);
    AddAddress("ext0", "2001:db8::2", 64);
    AddNeighbour("ext0", "203.0.113.1", kHostMac);
    AddNeighbour("ext0", "2001:db8::1", kHostMac);
    for (const char* v4 : {"169.254.169.254", "192.168.77.1"}) AddAddress("lo", v4, 32);
    for (const char* v6 : {"fd00:ec2::254", "fd77::1"}) AddAddress("lo", v6, 128);
    AddRoute("10.207.0.0", 16, "203.0.113.1");
    AddRoute("fd61:746c:6c07::", 64, "2001:db8::1");
  });
  Settle("up0");
  outside_.Run([] { Settle("ext0"); });
  AddNeighbour("up0", "203.0.113.2", kOutsideMac);
  AddNeighbour("up0", "2001:db8::2", kOutsideMac);
  AddRoute("0.0.0.0", 0, "203.0.113.2");
  AddRoute("::", 0, "2001:db8::2");
}

void NetLab::OpenNetwork(std::vector<std::string> dns_upstreams) {
  network_.reset();
  netpolicy::NetworkConfig config;
  config.instance = kLabInstance;
  config.dns_upstreams = std::move(dns_upstreams);
  config.max_connections = kLabConnections;
  auto network = netpolicy::Network::Open(config);
  ASSERT_TRUE(network.has_value()) << network.error().message();
  network_ = std::move(*network);
}

std::unique_ptr<Guest> NetLab::AddGuest(uint32_t slot) {
  auto guest = std::make_unique<Guest>();
  guest->slot = slot;
  guest->addresses = netpolicy::AddressesOf(kLabInstance, slot);
  guest->ns.Run([&] {
    auto socket = netpolicy::OpenNetlink(NETLINK_ROUTE);
    EXPECT_TRUE(socket.has_value());
    guest->rtnetlink = std::move(*socket);
  });
  const Status attached = network_->AttachSlot(slot, guest->rtnetlink.get());
  EXPECT_TRUE(attached.has_value()) << attached.error().message();
  return guest;
}

std::string Nft(const std::string& commands) {
  const std::unique_ptr<nft_ctx, void (*)(nft_ctx*)> context(nft_ctx_new(NFT_CTX_DEFAULT),
                                                             nft_ctx_free);
  nft_ctx_buffer_output(context.get());
  nft_ctx_buffer_error(context.get());
  const int result = nft_run_cmd_from_buffer(context.get(), commands.c_str());
  EXPECT_EQ(result, 0) << commands << ": " << nft_ctx_get_error_buffer(context.get());
  return nft_ctx_get_output_buffer(context.get());
}

void OpenBarrier() {
  for (const char* hook : {"input", "forward"}) {
    Nft(std::string("add table inet open; add chain inet open ") + hook + " { type filter hook " +
        hook + " priority 0; }; add rule inet open " + hook + " meta mark set meta mark or " +
        std::to_string(netpolicy::kPassedBit));
  }
}

void AddAddress(const std::string& link, const std::string& address, int prefix) {
  const std::vector<uint8_t> bytes = Bytes(address);
  NetlinkBatch batch;
  batch.Begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, "address " + address);
  ifaddrmsg header{};
  header.ifa_family = bytes.size() == 16 ? AF_INET6 : AF_INET;
  header.ifa_prefixlen = static_cast<uint8_t>(prefix);
  header.ifa_flags = bytes.size() == 16 ? IFA_F_NODAD : 0;
  header.ifa_index = ::if_nametoindex(link.c_str());
  batch.Header(header);
  batch.Put(IFA_LOCAL, bytes);
  batch.Put(IFA_ADDRESS, bytes);
  Send(batch);
  if (bytes.size() == 16) AddLocalRoute(link, bytes);
}

void AddNeighbour(const std::string& link, const std::string& address,
                  const netpolicy::MacBytes& mac) {
  const std::vector<uint8_t> bytes = Bytes(address);
  NetlinkBatch batch;
  batch.Begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, "neighbour " + address);
  ndmsg header{};
  header.ndm_family = bytes.size() == 16 ? AF_INET6 : AF_INET;
  header.ndm_ifindex = static_cast<int>(::if_nametoindex(link.c_str()));
  header.ndm_state = NUD_PERMANENT;
  batch.Header(header);
  batch.Put(NDA_DST, bytes);
  batch.Put(NDA_LLADDR, mac);
  Send(batch);
}

void AddRoute(const std::string& network, int prefix, const std::string& gateway) {
  const std::vector<uint8_t> to = Bytes(network);
  NetlinkBatch batch;
  batch.Begin(RTM_NEWROUTE, NLM_F_CREATE, "route " + network);
  rtmsg header{};
  header.rtm_family = to.size() == 16 ? AF_INET6 : AF_INET;
  header.rtm_dst_len = static_cast<uint8_t>(prefix);
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_type = RTN_UNICAST;
  batch.Header(header);
  if (prefix != 0) batch.Put(RTA_DST, to);
  batch.Put(RTA_GATEWAY, Bytes(gateway));
  Send(batch);
}

UniqueFd Listen(int type, const std::string& address, uint16_t port) {
  const Endpoint endpoint = Address(address, port);
  UniqueFd fd(::socket(endpoint.family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  EXPECT_TRUE(fd.valid());
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  EXPECT_EQ(::bind(fd.get(), endpoint.get(), endpoint.size), 0) << address << ": " << errno;
  if (type == SOCK_STREAM) {
    EXPECT_EQ(::listen(fd.get(), 16), 0);
  }
  return fd;
}

Reach TryConnect(const std::string& address, uint16_t port, int limit_ms) {
  const Endpoint endpoint = Address(address, port);
  const UniqueFd fd(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = ::connect(fd.get(), endpoint.get(), endpoint.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd poll{fd.get(), POLLOUT, 0};
    if (::poll(&poll, 1, limit_ms) == 0) return Reach::kSilence;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return Reach::kConnected;
  return error == ECONNREFUSED ? Reach::kRefused : Reach::kUnreachable;
}

bool SendDatagram(const std::string& from, const std::string& to, uint16_t port,
                  const std::string& payload, int raw_protocol) {
  const Endpoint target = Address(to, port);
  const int type = raw_protocol != 0 ? SOCK_RAW : SOCK_DGRAM;
  const UniqueFd fd(::socket(target.family(), type | SOCK_CLOEXEC, raw_protocol));
  if (!fd) return false;
  if (!from.empty()) {
    const Endpoint source = Address(from);
    if (::bind(fd.get(), source.get(), source.size) != 0) return false;
  }
  return ::sendto(fd.get(), payload.data(), payload.size(), 0, target.get(), target.size) >= 0;
}

bool WaitReadable(int fd, int limit_ms) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, limit_ms) == 1;
}

std::string ReceiveFrom(int fd, Endpoint* from, int limit_ms) {
  if (!WaitReadable(fd, limit_ms)) return "";
  char buffer[65536];
  Endpoint sender;
  const ssize_t n = ::recvfrom(fd, buffer, sizeof buffer, 0, sender.get(), &sender.size);
  if (n < 0) return "";
  if (from) *from = sender;
  return {buffer, static_cast<size_t>(n)};
}

}  // namespace atl::testing
