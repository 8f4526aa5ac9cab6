// Datagrams by the batch: one recvmmsg(2) for many questions, one sendmmsg(2) for their answers.
// A system call for each was half the processor time of an answer from the cache.
//
// Thread rule: on the loop.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {

class DnsDatagrams {
 public:
  using OnMessage = std::function<void(std::span<const uint8_t> message, const Endpoint& from)>;

  DnsDatagrams();
  DnsDatagrams(const DnsDatagrams&) = delete;
  DnsDatagrams& operator=(const DnsDatagrams&) = delete;

  // One batch of what `fd` (borrowed, nonblocking) has. A message longer than a query may be comes
  // with kDnsMaxQuery + 1 bytes. What `on_message` sends leaves at the end, on the same socket.
  void Receive(int fd, const OnMessage& on_message);
  // A full socket buffer loses the datagram, as the network may: the client asks again.
  void Send(int fd, std::vector<uint8_t> message, const Endpoint& to);

 private:
  // So few that other work on the loop gets its turn.
  static constexpr size_t kBatch = 32;
  struct Slot {
    std::array<uint8_t, kDnsMaxQuery + 1> bytes;
    Endpoint from;
  };
  struct Outgoing {
    std::vector<uint8_t> bytes;
    Endpoint to;
  };
  void Flush(int fd);

  std::vector<Slot> slots_;
  std::vector<Outgoing> outgoing_;
  bool receiving_ = false;
};

}  // namespace atl::netpolicy
