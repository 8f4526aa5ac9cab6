#include "netpolicy/rules/packet_log.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "netpolicy/link/netlink.h"

namespace atl::netpolicy {
namespace {

constexpr uint32_t kCopyBytes = 128;
constexpr int kDatagramsAtOnce = 32;  // limit of one wake-up

void BeginConfig(NetlinkBatch& batch, uint16_t group, const char* label) {
  batch.Begin(NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, 0,
              std::string(label) + ", nfnetlink_log group " + std::to_string(group));
  nfgenmsg header{};
  header.nfgen_family = AF_UNSPEC;
  header.version = NFNETLINK_V0;
  header.res_id = htons(group);
  batch.Header(header);
}

uint16_t Be16(std::span<const uint8_t> bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

bool HasPorts(uint8_t protocol) {
  return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

}  // namespace

std::optional<LoggedPacket> ParseLoggedPacket(uint32_t ifindex, std::span<const uint8_t> packet) {
  LoggedPacket logged;
  logged.ifindex = ifindex;
  if (packet.empty()) return std::nullopt;
  size_t transport = 0;
  bool first_fragment = true;
  if (packet[0] >> 4 == 4 && packet.size() >= 20) {
    logged.destination = IpAddress::FromBytes(packet.subspan(16, 4));
    logged.protocol = packet[9];
    transport = static_cast<size_t>(packet[0] & 0xf) * 4;
    first_fragment = (Be16(packet, 6) & 0x1fff) == 0;
  } else if (packet[0] >> 4 == 6 && packet.size() >= 40) {
    logged.destination.ipv6 = true;
    std::copy_n(packet.begin() + 24, 16, logged.destination.bytes.begin());
    logged.protocol = packet[6];  // the number of an extension header if there is one
    transport = 40;
  } else {
    return std::nullopt;
  }
  if (HasPorts(logged.protocol) && first_fragment && packet.size() >= transport + 4) {
    logged.port = Be16(packet, transport + 2);
  }
  return logged;
}

Result<std::unique_ptr<PacketLog>> PacketLog::Open(uint16_t group) {
  ATOLL_ASSIGN(UniqueFd socket, OpenNetlink(NETLINK_NETFILTER));
  NetlinkBatch bind;
  BeginConfig(bind, group, "bind");
  const nfulnl_msg_config_cmd command{NFULNL_CFG_CMD_BIND};
  bind.Put(NFULA_CFG_CMD, {reinterpret_cast<const uint8_t*>(&command), sizeof command});
  ATOLL_TRY(Exchange(socket.get(), bind));

  NetlinkBatch configure;
  BeginConfig(configure, group, "configure");
  nfulnl_msg_config_mode mode{};
  mode.copy_mode = NFULNL_COPY_PACKET;
  mode.copy_range = htonl(kCopyBytes);
  configure.Put(NFULA_CFG_MODE, {reinterpret_cast<const uint8_t*>(&mode), sizeof mode});
  // Packets are delivered one by one: the rules log only a few.
  configure.PutBe32(NFULA_CFG_QTHRESH, 1);
  ATOLL_TRY(Exchange(socket.get(), configure));
  return std::unique_ptr<PacketLog>(new PacketLog(std::move(socket)));
}

PacketLog::~PacketLog() {
  if (loop_) loop_->Unwatch(watch_);
}

void PacketLog::Start(Loop& loop, std::function<void(const LoggedPacket&)> on_packet) {
  loop_ = &loop;
  on_packet_ = std::move(on_packet);
  watch_ = loop.WatchReadable(socket_.get(), [this] { OnReadable(); });
}

void PacketLog::OnReadable() {
  alignas(nlmsghdr) std::array<uint8_t, 16384> buffer;
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    // ENOBUFS also ends the loop. Packets were lost, but the counters include them.
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n <= 0) return;
    std::span<const uint8_t> left(buffer.data(), static_cast<size_t>(n));
    while (const nlmsghdr* m = TakeMessage(&left)) {
      if (m->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET)) continue;
      uint32_t ifindex = 0;
      std::optional<LoggedPacket> packet;
      for (const Attribute& attribute : Attributes(m, sizeof(nfgenmsg))) {
        if (attribute.type == NFULA_IFINDEX_INDEV) ifindex = attribute.Be32();
        if (attribute.type == NFULA_PAYLOAD) packet = ParseLoggedPacket(ifindex, attribute.bytes);
      }
      if (packet) on_packet_(*packet);
    }
  }
}

}  // namespace atl::netpolicy
