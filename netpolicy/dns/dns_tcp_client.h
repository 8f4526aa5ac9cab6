// A sandbox's TCP connection to the forwarder. Each message has its length in front, and several
// may be in flight (RFC 7766). The length of a query, the bytes queued for a client that does not
// read, and the time of a silent connection are limited.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

class DnsTcpClient {
 public:
  using OnQuery = std::function<void(std::span<const uint8_t>)>;
  // Called once, on the loop. It may destroy the client.
  using OnClosed = std::function<void()>;

  DnsTcpClient(Loop& loop, UniqueFd socket, int64_t idle_us, OnQuery on_query, OnClosed on_closed);
  DnsTcpClient(const DnsTcpClient&) = delete;
  DnsTcpClient& operator=(const DnsTcpClient&) = delete;
  ~DnsTcpClient();

  void Send(std::span<const uint8_t> message);

 private:
  void OnEvents(uint32_t events);
  void OnReadable();
  bool TakeQueries();
  void Flush();
  void RestartIdleTimer();
  void CloseSoon();

  Loop& loop_;
  UniqueFd socket_;
  int64_t idle_us_;
  OnQuery on_query_;
  OnClosed on_closed_;
  Loop::Id watch_ = 0;
  Loop::Id idle_timer_ = 0;
  std::vector<uint8_t> in_;
  std::vector<uint8_t> out_;
  bool waiting_to_write_ = false;
  bool closing_ = false;
};

}  // namespace atl::netpolicy
