// One question put to the upstreams: first to one over UDP, to the next when it fails or is slow,
// again over TCP when the answer did not fit, again without EDNS when the upstream does not know it
// (RFC 6891 section 7). An upstream that is slow stays asked: its answer counts until the end of
// the exchange, whoever was asked meanwhile.
//
// Each upstream is asked from a fresh socket (so the kernel picks a random port) and with a fresh
// random id, and only what comes from that upstream with that id and that question is taken: what a
// blind spoofer has to guess. The same question is sent to it again from the same socket and with
// the same id, because each further pair that is open at once would be another one to hit (RFC 5452
// section 5).
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/dns/dns_lookup.h"
#include "netpolicy/dns/dns_message.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct DnsTimeouts {
  // Until the next upstream is asked; twice as long each time when all have been asked.
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
  // The question as one upstream was asked it.
  struct Asked {
    std::vector<uint8_t> query;
    bool edns = true;
    UniqueFd socket;  // invalid: it was not asked yet, or is not expected to answer any more
    bool tcp = false;
    Loop::Id watch = 0;
    std::vector<uint8_t> received;  // over TCP
  };

  void Ask();
  void OnAttemptOver();
  void AskNext();
  void StartTimer(int64_t delay_us);
  bool AskOverUdp(size_t i);
  bool AskOverTcp(size_t i);
  bool OpenSocket(size_t i, int type);
  void Close(Asked& asked);
  void OnUdpReadable(size_t i);
  void OnTcpWritable(size_t i);
  void OnTcpReadable(size_t i);
  std::optional<DnsHeader> Accept(const Asked& asked, std::span<const uint8_t> message) const;
  void OnResponse(size_t i, const DnsHeader& header, std::span<const uint8_t> message);
  void OnFailed(size_t i);
  void Finish(std::vector<uint8_t> answer);
  // Index of the upstream whose turn it is.
  size_t current() const { return attempt_ % upstreams_.size(); }
  // Whether the next step depends on it: it is its turn, or nobody is asked any more.
  bool IsAwaited(size_t i) const { return i == current() || attempt_timer_ == 0; }
  bool all_had_a_turn() const { return attempt_ + 1 >= upstreams_.size(); }

  Loop& loop_;
  DnsLookup lookup_;
  const std::vector<Endpoint> upstreams_;
  std::vector<Asked> asked_;  // one for each of upstreams_
  DnsTimeouts timeouts_;
  OnFailure on_failure_;
  Done done_;

  size_t attempt_ = 0;
  std::vector<uint8_t> refusal_;  // SERVFAIL and the like: passed on if nobody knows better
  Loop::Id attempt_timer_ = 0;
  Loop::Id total_timer_ = 0;
};

}  // namespace atl::netpolicy
