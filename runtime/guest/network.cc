#include "runtime/guest/network.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <span>
#include <string>

#include "netpolicy/link/link_messages.h"
#include "netpolicy/link/netlink.h"

namespace atl::guest {
namespace {

constexpr char kName[] = "eth0";

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Shown(const wire::vm::AddressBytes& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  ::inet_ntop(address.size() == 16 ? AF_INET6 : AF_INET, address.data(), text, sizeof text);
  return text;
}

// Returns the index of eth0.
Result<int> FindLink() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket AF_INET");
  ifreq request{};
  std::memcpy(request.ifr_name, kName, sizeof kName);
  if (::ioctl(socket.get(), SIOCGIFINDEX, &request) != 0) return FailSys("SIOCGIFINDEX eth0");
  return request.ifr_ifindex;
}

}  // namespace

Status SetUpNetwork(const wire::vm::Go& go) {
  using netpolicy::NetlinkBatch;
  ATOLL_ASSIGN(const UniqueFd socket, netpolicy::OpenNetlink(NETLINK_ROUTE));
  constexpr int kLoIfindex = 1;
  NetlinkBatch batch;
  netpolicy::AddLinkUp(batch, kLoIfindex, "lo");
  if (go.mac.empty()) return netpolicy::Exchange(socket.get(), batch);

  ATOLL_ASSIGN(const int index, FindLink());
  const std::string on = std::string(" dev ") + kName;
  bool ipv6 = false;
  for (const auto& address : go.addresses) ipv6 |= address.size() == 16;
  if (ipv6) netpolicy::AddNoLinkLocal(batch, index, kName);
  batch.Begin(RTM_NEWLINK, 0, "RTM_NEWLINK eth0 mtu and MAC");
  batch.Header(netpolicy::LinkHeader(index, netpolicy::kBirthFlags, netpolicy::kBirthFlags));
  batch.PutU32(IFLA_MTU, go.mtu);
  batch.Put(IFLA_ADDRESS, Bytes(go.mac));
  netpolicy::AddLinkUp(batch, index, kName);
  for (const auto& address : go.addresses) {
    const std::string shown = Shown(address) + on;
    netpolicy::AddAddress(batch, RTM_NEWADDR, index, Bytes(address), "RTM_NEWADDR " + shown);
    if (address.size() != 16) continue;
    netpolicy::AddLocalRoute(batch, RTM_NEWROUTE, index, Bytes(address),
                             "RTM_NEWROUTE local " + shown);
  }
  for (const auto& [address, mac] : go.neighbours) {
    netpolicy::AddNeighbour(batch, index, Bytes(address), Bytes(mac),
                            "RTM_NEWNEIGH " + Shown(address) + on);
  }
  for (const auto& gateway : go.gateways) {
    netpolicy::AddDefaultRoute(batch, index, Bytes(gateway),
                               "RTM_NEWROUTE default via " + Shown(gateway) + on);
  }
  return netpolicy::Exchange(socket.get(), batch);
}

}  // namespace atl::guest
