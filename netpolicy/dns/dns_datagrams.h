// Receives and sends datagrams in batches: one recvmmsg(2) for many questions, one sendmmsg(2) for
// their answers. One system call for each was half the CPU time of an answer from the cache.
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

  // Receives one batch from `fd` (borrowed, nonblocking). A message longer than the limit for
  // queries arrives cut to kDnsMaxQuery + 1 bytes. Messages that `on_message` sends are collected
  // and leave at the end, on the same socket.
  void Receive(int fd, const OnMessage& on_message);
  // Sends one datagram. It is lost if the socket's buffer is full, as it may be lost on the
  // network: the client asks again.
  void Send(int fd, std::vector<uint8_t> message, const Endpoint& to);

 private:
  // Small, so that other work on the loop gets its turn.
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
