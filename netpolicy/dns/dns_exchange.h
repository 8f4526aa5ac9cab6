// Asks the upstreams one question. The first attempt uses UDP.
// - The next upstream is asked if the current one fails or is slow. A slow upstream is not given
//   up: its answer counts until the end of the exchange.
// - The question is repeated over TCP if the answer did not fit.
// - The question is repeated without EDNS if the upstream does not know it (RFC 6891 section 7).
//
// A blind spoofer has to guess the port and the id: each upstream is asked from a fresh socket, so
// that the kernel picks a random port, with a fresh random id. Only a message from that upstream
// with that id and question is accepted. A repetition to the same upstream uses the same socket and
// id, because each further open pair would be another target (RFC 5452 section 5).
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
  // Time until the next upstream is asked. Doubles each time all of them have been asked.
  int64_t attempt_us = 1'500'000;
  int64_t total_us = 5'000'000;
};

class DnsExchange {
 public:
  // Called once, on the loop, with a message that ReadDnsAnswer accepts, or an empty one. The
  // message is truncated only if TCP failed. The callback destroys the exchange before it returns.
  using Done = std::function<void(std::span<const uint8_t> message)>;
  // Called for an upstream that did not answer in time, or refused.
  using OnFailure = std::function<void(const Endpoint&)>;

  // `upstreams` must not be empty.
  DnsExchange(Loop& loop, DnsLookup lookup, std::vector<Endpoint> upstreams, DnsTimeouts timeouts,
              OnFailure on_failure, Done done);
  DnsExchange(const DnsExchange&) = delete;
  DnsExchange& operator=(const DnsExchange&) = delete;
  ~DnsExchange();

 private:
  // State of one upstream: the question in the form in which it was asked.
  struct Asked {
    std::vector<uint8_t> query;
    bool edns = true;
    UniqueFd socket;  // invalid: not asked yet, or no answer is expected any more
    bool tcp = false;
    Loop::Id watch = 0;
    std::vector<uint8_t> received;  // bytes received over TCP
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
  // Returns true if the next step depends on upstream `i`: it is its turn, or no further upstream
  // will be asked.
  bool IsAwaited(size_t i) const { return i == current() || attempt_timer_ == 0; }
  bool all_had_a_turn() const { return attempt_ + 1 >= upstreams_.size(); }

  Loop& loop_;
  DnsLookup lookup_;
  const std::vector<Endpoint> upstreams_;
  std::vector<Asked> asked_;  // parallel to upstreams_
  DnsTimeouts timeouts_;
  OnFailure on_failure_;
  Done done_;

  size_t attempt_ = 0;
  // SERVFAIL or similar; passed on if no upstream gives a better answer
  std::vector<uint8_t> refusal_;
  Loop::Id attempt_timer_ = 0;
  Loop::Id total_timer_ = 0;
};

}  // namespace atl::netpolicy
