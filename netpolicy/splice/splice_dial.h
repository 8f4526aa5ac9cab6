// Connects to the first of several addresses that answers.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/address/ip.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

// Returns true for addresses that the proxy never dials, whatever the policy: unspecified,
// loopback, link-local, multicast, and IPv4-mapped ones.
bool NeverDialled(const IpAddress& address);

// Sets keepalive and TCP_NODELAY on a socket of a connection. A silent peer is probed after two
// minutes and given up a minute later. Sockets accepted from a listening socket inherit the
// options.
Status SetRelayOptions(int socket);

class SpliceDial {
 public:
  // connect(2); tests replace it.
  using Connect = std::function<int(int socket, const Endpoint& to)>;
  // Called once, perhaps from within Start. The socket is invalid if no server answered. May
  // destroy the dial.
  using OnDone = std::function<void(UniqueFd socket)>;

  struct Timeouts {
    int64_t attempt_us = 3'000'000;
    int64_t total_us = 10'000'000;
  };
  struct Watch {
    int epoll = -1;    // borrowed; sockets are added to it edge-triggered, for all events
    uint64_t tag = 0;  // epoll_data of the socket
  };

  SpliceDial(Loop& loop, Watch watch, std::vector<Endpoint> targets, Timeouts timeouts,
             const Connect& connect, OnDone done);
  SpliceDial(const SpliceDial&) = delete;
  SpliceDial& operator=(const SpliceDial&) = delete;
  ~SpliceDial() { loop_.Cancel(timer_); }

  void Start();
  // Stops without calling `done`.
  void Stop();
  // Call when the socket has an event.
  void OnEvent();

 private:
  void TryNext();
  bool Attempt(const Endpoint& target);
  void Finish(UniqueFd socket);

  Loop& loop_;
  Watch watch_;
  std::vector<Endpoint> targets_;
  Timeouts timeouts_;
  const Connect& connect_;
  OnDone done_;
  size_t next_ = 0;
  int64_t deadline_us_ = 0;
  UniqueFd socket_;
  Loop::Id timer_ = 0;
};

}  // namespace atl::netpolicy
