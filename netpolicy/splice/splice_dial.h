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

// What no name and no client leads to, whatever a policy says: this host, the link, groups, and
// addresses that stand for others.
bool NeverDialled(const IpAddress& address);

// For both sockets of a connection: probes a peer that is silent for two minutes and gives it up a
// minute later; sends without waiting for more. Those that a listening socket accepts inherit it.
Status SetRelayOptions(int socket);

class SpliceDial {
 public:
  // connect(2), for tests.
  using Connect = std::function<int(int socket, const Endpoint& to)>;
  // Called once, perhaps from within Start; invalid if nobody answered. May destroy the dial.
  using OnDone = std::function<void(UniqueFd socket)>;

  struct Timeouts {
    int64_t attempt_us = 3'000'000;
    int64_t total_us = 10'000'000;
  };
  struct Watch {
    int epoll = -1;    // borrowed; sockets are added to it for everything, edge-triggered
    uint64_t tag = 0;  // epoll_data of the socket
  };

  SpliceDial(Loop& loop, Watch watch, std::vector<Endpoint> targets, Timeouts timeouts,
             const Connect& connect, OnDone done);
  SpliceDial(const SpliceDial&) = delete;
  SpliceDial& operator=(const SpliceDial&) = delete;
  ~SpliceDial() { loop_.Cancel(timer_); }

  void Start();
  // `done` is not called any more.
  void Stop();
  // The socket had an event.
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
