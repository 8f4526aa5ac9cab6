// Reads the packets that the rules refused, as the kernel logs them (nfnetlink_log): a few per
// second and link, with the headers that tell where they were going.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "netpolicy/address/ip.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct LoggedPacket {
  uint32_t ifindex = 0;  // index of the input interface
  IpAddress destination;
  uint8_t protocol = 0;  // IPPROTO_…
  uint16_t port = 0;     // destination port; 0: the protocol has none, or it was cut off
};

// Parses the headers of an IPv4 or IPv6 packet of any length. Empty if there are none. The bytes
// are hostile.
std::optional<LoggedPacket> ParseLoggedPacket(uint32_t ifindex, std::span<const uint8_t> packet);

class PacketLog {
 public:
  // Binds to the group, which needs CAP_NET_ADMIN. kAlreadyExists: another process uses the group.
  static Result<std::unique_ptr<PacketLog>> Open(uint16_t group);
  PacketLog(const PacketLog&) = delete;
  PacketLog& operator=(const PacketLog&) = delete;
  ~PacketLog();

  void Start(Loop& loop, std::function<void(const LoggedPacket&)> on_packet);

 private:
  explicit PacketLog(UniqueFd socket) : socket_(std::move(socket)) {}
  void OnReadable();

  UniqueFd socket_;
  Loop* loop_ = nullptr;
  Loop::Id watch_ = 0;
  std::function<void(const LoggedPacket&)> on_packet_;
};

}  // namespace atl::netpolicy
