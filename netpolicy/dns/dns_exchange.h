// One question put to the upstreams: first to one over UDP, to the next when it fails or is slow,
// again over TCP when the answer did not fit, again without EDNS when the upstream does not know it
// (RFC 6891 section 7).
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

#include "netpolicy/dns/dns_lookup.h"
#include "netpolicy/dns/dns_message.h"
#include "netpolicy/endpoint.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct DnsTimeouts {
  int64_t attempt_us = 1'500'000;
  int64_t total_us = 5'000'000;
};

class DnsExchange {
 public:
  // A message that ReadDnsAnswer takes, or nothing. It is truncated only if TCP failed. Called
  // once, from the loop; it destroys the exchange before it returns.
  using Done = std::function<void(std::span<const uint8_t> message)>;
  // An upstream that did not answer in time, or refused to talk.
  using OnFailure = std::function<void(const Endpoint&)>;

  // `upstreams`: at least one.
  DnsExchange(Loop& loop, DnsLookup lookup, std::vector<Endpoint> upstreams, DnsTimeouts timeouts,
              OnFailure on_failure, Done done);
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
  std::optional<DnsHeader> Accept(std::span<const uint8_t> message) const;
  void OnResponse(const DnsHeader& header, std::span<const uint8_t> message);
  void Finish(std::vector<uint8_t> answer);
  const Endpoint& upstream() const { return upstreams_[attempt_ % upstreams_.size()]; }

  Loop& loop_;
  DnsLookup lookup_;
  std::vector<uint8_t> query_;  // of this attempt
  bool edns_ = true;
  std::vector<Endpoint> upstreams_;
  DnsTimeouts timeouts_;
  OnFailure on_failure_;
  Done done_;

  size_t attempt_ = 0;
  std::vector<uint8_t> refusal_;  // SERVFAIL and the like: passed on if nobody knows better
  UniqueFd socket_;
  Loop::Id watch_ = 0;
  Loop::Id attempt_timer_ = 0;
  Loop::Id total_timer_ = 0;
  std::vector<uint8_t> received_;  // over TCP
};

}  // namespace atl::netpolicy
