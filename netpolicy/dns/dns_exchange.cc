#include "netpolicy/dns/dns_exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/descriptors.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

// Bounds the cost of one query even if every attempt fails at once.
constexpr size_t kMaxAttempts = 6;

bool IsRefusal(const DnsHeader& header) {
  const auto rcode = static_cast<DnsRcode>(header.rcode());
  return rcode != DnsRcode::kNoError && rcode != DnsRcode::kNxDomain;
}

// Returns true for answers that servers without EDNS support give.
bool MayDislikeEdns(const DnsHeader& header) {
  const auto rcode = static_cast<DnsRcode>(header.rcode());
  return rcode == DnsRcode::kFormatError || rcode == DnsRcode::kNotImplemented;
}

}  // namespace

DnsExchange::DnsExchange(Loop& loop, DnsLookup lookup, std::vector<Endpoint> upstreams,
                         DnsTimeouts timeouts, OnFailure on_failure, Done done)
    : loop_(loop),
      lookup_(std::move(lookup)),
      upstreams_(std::move(upstreams)),
      asked_(upstreams_.size()),
      timeouts_(timeouts),
      on_failure_(std::move(on_failure)),
      done_(std::move(done)) {
  ATOLL_CHECK(!upstreams_.empty());
  total_timer_ = loop_.After(timeouts_.total_us, [this] {
    total_timer_ = 0;
    on_failure_(upstreams_[current()]);
    Finish(std::move(refusal_));
  });
  Ask();
}

DnsExchange::~DnsExchange() {
  for (Asked& asked : asked_) Close(asked);
  loop_.Cancel(attempt_timer_);
  loop_.Cancel(total_timer_);
}

void DnsExchange::Close(Asked& asked) {
  if (asked.watch != 0) loop_.Unwatch(std::exchange(asked.watch, 0));
  asked.socket.reset();
  asked.received.clear();
}

void DnsExchange::Ask() {
  const size_t i = current();
  Asked& asked = asked_[i];
  // A failure to send is handled like a missing answer, by a timer that is due at once. This way
  // Done is never called from the constructor.
  bool sent = true;
  if (!asked.socket) {
    asked.edns = true;
    sent = AskOverUdp(i);
  } else if (!asked.tcp) {
    sent = ::send(asked.socket.get(), asked.query.data(), asked.query.size(), MSG_NOSIGNAL) >= 0;
  }
  const size_t round = std::min<size_t>(attempt_ / upstreams_.size(), kMaxAttempts);
  StartTimer(sent ? timeouts_.attempt_us << round : 0);
}

void DnsExchange::StartTimer(int64_t delay_us) {
  loop_.Cancel(attempt_timer_);
  attempt_timer_ = loop_.After(delay_us, [this] {
    attempt_timer_ = 0;
    OnAttemptOver();
  });
}

void DnsExchange::OnAttemptOver() {
  on_failure_(upstreams_[current()]);
  AskNext();
}

void DnsExchange::AskNext() {
  if (all_had_a_turn() && !refusal_.empty()) return Finish(std::move(refusal_));
  if (attempt_ + 1 < std::max(kMaxAttempts, upstreams_.size())) {
    ++attempt_;
    return Ask();
  }
  // No further upstream is asked; those that were asked may still answer.
  const auto open = [](const Asked& asked) { return asked.socket.valid(); };
  if (std::none_of(asked_.begin(), asked_.end(), open)) Finish(std::move(refusal_));
}

bool DnsExchange::OpenSocket(size_t i, int type) {
  Asked& asked = asked_[i];
  Close(asked);
  asked.tcp = type == SOCK_STREAM;
  const std::string id = sys::RandomBytes(2);
  asked.query = MakeDnsQuery(
      lookup_,
      static_cast<uint16_t>(static_cast<uint8_t>(id[0]) << 8 | static_cast<uint8_t>(id[1])),
      asked.edns);
  const Endpoint& upstream = upstreams_[i];
  UniqueFd socket(::socket(upstream.family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || IsSpare(socket.get())) return false;
  if (::connect(socket.get(), upstream.get(), upstream.size) != 0 && errno != EINPROGRESS) {
    return false;
  }
  asked.socket = std::move(socket);
  return true;
}

bool DnsExchange::AskOverUdp(size_t i) {
  if (!OpenSocket(i, SOCK_DGRAM)) return false;
  Asked& asked = asked_[i];
  if (::send(asked.socket.get(), asked.query.data(), asked.query.size(), MSG_NOSIGNAL) < 0) {
    Close(asked);
    return false;
  }
  asked.watch = loop_.WatchReadable(asked.socket.get(), [this, i] { OnUdpReadable(i); });
  return true;
}

std::optional<DnsHeader> DnsExchange::Accept(const Asked& asked,
                                             std::span<const uint8_t> message) const {
  const auto response = ParseDnsResponse(message);
  if (!response || response->header.id != ParseDnsHeader(asked.query)->id ||
      !IsAnswerTo(*response, lookup_)) {
    return std::nullopt;
  }
  return response->header;
}

void DnsExchange::OnUdpReadable(size_t i) {
  std::array<uint8_t, 8192> buffer;
  // Few messages per call, so that a flood of wrong answers does not hold the loop.
  for (int n_read = 0; n_read < 8; ++n_read) {
    const ssize_t n =
        TEMP_FAILURE_RETRY(::recv(asked_[i].socket.get(), buffer.data(), buffer.size(), 0));
    if (n < 0) {
      // ECONNREFUSED: an ICMP error says that no server listens there.
      if (errno != EAGAIN) OnFailed(i);
      return;
    }
    const std::span<const uint8_t> message(buffer.data(), static_cast<size_t>(n));
    if (const auto header = Accept(asked_[i], message)) return OnResponse(i, *header, message);
  }
}

// Called if an upstream will not answer.
void DnsExchange::OnFailed(size_t i) {
  Close(asked_[i]);
  // If a slow upstream fails, another one has been asked already; nothing more to do.
  if (IsAwaited(i)) OnAttemptOver();
}

void DnsExchange::OnResponse(size_t i, const DnsHeader& header, std::span<const uint8_t> message) {
  Asked& asked = asked_[i];
  std::vector<uint8_t> answer(message.begin(), message.end());
  if (asked.edns && MayDislikeEdns(header)) {
    asked.edns = false;
    if (!AskOverUdp(i)) return OnFailed(i);
    if (IsAwaited(i)) StartTimer(timeouts_.attempt_us);
    return;
  }
  if (IsRefusal(header)) {
    Close(asked);
    refusal_ = std::move(answer);
    if (IsAwaited(i)) AskNext();
    return;
  }
  if (header.truncated()) {
    refusal_ = std::move(answer);
    if (!AskOverTcp(i)) return OnFailed(i);
    if (IsAwaited(i)) StartTimer(timeouts_.attempt_us);
    return;
  }
  Finish(std::move(answer));
}

bool DnsExchange::AskOverTcp(size_t i) {
  if (!OpenSocket(i, SOCK_STREAM)) return false;
  Asked& asked = asked_[i];
  asked.watch =
      loop_.Watch(asked.socket.get(), EPOLLOUT, [this, i](uint32_t) { OnTcpWritable(i); });
  return asked.watch != 0;
}

void DnsExchange::OnTcpWritable(size_t i) {
  Asked& asked = asked_[i];
  loop_.Unwatch(std::exchange(asked.watch, 0));
  const std::array<uint8_t, 2> prefix{static_cast<uint8_t>(asked.query.size() >> 8),
                                      static_cast<uint8_t>(asked.query.size() & 0xff)};
  std::vector<uint8_t> bytes(prefix.begin(), prefix.end());
  bytes.insert(bytes.end(), asked.query.begin(), asked.query.end());
  // The first kilobyte of a new connection always fits into the buffer. A failed connect shows
  // here.
  const ssize_t n = ::send(asked.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n != static_cast<ssize_t>(bytes.size())) return OnFailed(i);
  asked.watch = loop_.WatchReadable(asked.socket.get(), [this, i] { OnTcpReadable(i); });
}

void DnsExchange::OnTcpReadable(size_t i) {
  Asked& asked = asked_[i];
  std::vector<uint8_t>& received = asked.received;
  std::array<uint8_t, 16384> buffer;
  const ssize_t n = TEMP_FAILURE_RETRY(::recv(asked.socket.get(), buffer.data(), buffer.size(), 0));
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return OnFailed(i);
  received.insert(received.end(), buffer.begin(), buffer.begin() + n);
  if (received.size() < 2) return;
  const size_t size = static_cast<size_t>(received[0]) << 8 | received[1];
  if (received.size() < size + 2) return;
  const std::vector<uint8_t> message(received.begin() + 2,
                                     received.begin() + 2 + static_cast<std::ptrdiff_t>(size));
  if (!Accept(asked, message)) return OnFailed(i);
  Finish(message);
}

void DnsExchange::Finish(std::vector<uint8_t> answer) {
  // `done` destroys this object, so no member may be used after the call. The sockets are closed
  // there, after the waiting query is answered.
  const Done done = std::move(done_);
  done(answer);
}

}  // namespace atl::netpolicy
