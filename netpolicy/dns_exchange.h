// One question put to the upstreams: first to one over UDP, to the next when it fails or is slow,
// and again over TCP when the answer did not fit.
//
// Every attempt has a fresh socket (so the kernel picks a random port) and a fresh random id, and
// takes only what comes from that upstream with that id and that question: what a blind spoofer has
// to guess.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "netpolicy/dns_message.h"
#include "netpolicy/endpoint.h"
#include "netpolicy/write_watch.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct DnsTimeouts {
  int64_t attempt_us = 1'500'000;
  int64_t total_us = 5'000'000;
};

class DnsExchange {
 public:
  // The answer, with some id; empty if there is none. Called once, from the loop, and may destroy
  // the exchange.
  using Done = std::function<void(std::vector<uint8_t> answer)>;
  // An upstream that did not answer in time, or refused to talk.
  using OnFailure = std::function<void(const Endpoint&)>;

  // `query` is a message that ParseDnsQuery accepts. `want_whole`: fetch over TCP what is
  // truncated over UDP, because the client asked over TCP.
  DnsExchange(Loop& loop, std::span<const uint8_t> query, std::vector<Endpoint> upstreams,
              bool want_whole, DnsTimeouts timeouts, OnFailure on_failure, Done done);
  DnsExchange(const DnsExchange&) = delete;
  DnsExchange& operator=(const DnsExchange&) = delete;
  ~DnsExchange();

 private:
  void NextAttempt();
  void AttemptFailed();
  bool OpenSocket(int type);
  bool SendUdp();
  bool StartTcp();
  void CloseAttempt();
  void OnUdpReadable();
  void OnTcpWritable();
  void OnTcpReadable();
  std::optional<DnsResponse> Accept(std::span<const uint8_t> message) const;
  void OnResponse(const DnsResponse& response, std::span<const uint8_t> message);
  void Finish(std::vector<uint8_t> answer);
  const Endpoint& upstream() const { return upstreams_[attempt_ % upstreams_.size()]; }

  Loop& loop_;
  std::vector<uint8_t> query_;
  std::vector<Endpoint> upstreams_;
  bool want_whole_;
  DnsTimeouts timeouts_;
  OnFailure on_failure_;
  Done done_;

  size_t attempt_ = 0;
  std::vector<uint8_t> refusal_;  // SERVFAIL and the like: passed on if nobody knows better
  UniqueFd socket_;
  Loop::Id watch_ = 0;
  WriteWatch write_watch_;
  Loop::Id attempt_timer_ = 0;
  Loop::Id total_timer_ = 0;
  std::vector<uint8_t> received_;  // over TCP
};

}  // namespace atl::netpolicy
