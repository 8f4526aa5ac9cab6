// A TCP connection of a sandbox to the forwarder: messages with a length in front, several may be
// under way (RFC 7766). Everything is bounded: the length of a query, the bytes that wait for a
// client that does not read, and the time that a silent one may stay.
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
  // Called once, from the loop, may destroy the client.
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
