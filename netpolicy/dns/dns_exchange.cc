#include "netpolicy/dns/dns_exchange.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::netpolicy {
namespace {

// Even when every attempt fails at once: no query costs more than this.
constexpr size_t kMaxAttempts = 6;

bool IsRefusal(const DnsHeader& header) {
  const auto rcode = static_cast<DnsRcode>(header.rcode());
  return rcode != DnsRcode::kNoError && rcode != DnsRcode::kNxDomain;
}

// What servers say that were written before EDNS.
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
      timeouts_(timeouts),
      on_failure_(std::move(on_failure)),
      done_(std::move(done)) {
  ATOLL_CHECK(!upstreams_.empty());
  total_timer_ = loop_.After(timeouts_.total_us, [this] {
    total_timer_ = 0;
    on_failure_(upstream());
    Finish(std::move(refusal_));
  });
  NextAttempt();
}

DnsExchange::~DnsExchange() {
  CloseAttempt();
  loop_.Cancel(total_timer_);
}

void DnsExchange::CloseAttempt() {
  if (watch_ != 0) loop_.Unwatch(std::exchange(watch_, 0));
  loop_.Cancel(std::exchange(attempt_timer_, 0));
  socket_.reset();
  received_.clear();
}

void DnsExchange::NextAttempt() {
  // Failures to send are taken like failures to answer, by a timer that is due at once: Done is
  // never called from the constructor.
  const bool sent = OpenSocket(SOCK_DGRAM) && SendUdp();
  attempt_timer_ = loop_.After(sent ? timeouts_.attempt_us : 0, [this] { AttemptFailed(); });
}

void DnsExchange::AttemptFailed() {
  on_failure_(upstream());
  CloseAttempt();
  ++attempt_;
  edns_ = true;
  if (attempt_ >= std::max(kMaxAttempts, upstreams_.size())) return Finish(std::move(refusal_));
  NextAttempt();
}

bool DnsExchange::OpenSocket(int type) {
  CloseAttempt();
  const std::string id = sys::RandomBytes(2);
  query_ = MakeDnsQuery(
      lookup_,
      static_cast<uint16_t>(static_cast<uint8_t>(id[0]) << 8 | static_cast<uint8_t>(id[1])), edns_);
  socket_.reset(::socket(upstream().family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return false;
  return ::connect(socket_.get(), upstream().get(), upstream().size) == 0 || errno == EINPROGRESS;
}

bool DnsExchange::SendUdp() {
  if (::send(socket_.get(), query_.data(), query_.size(), MSG_NOSIGNAL) < 0) return false;
  watch_ = loop_.WatchReadable(socket_.get(), [this] { OnUdpReadable(); });
  return true;
}

std::optional<DnsHeader> DnsExchange::Accept(std::span<const uint8_t> message) const {
  const auto response = ParseDnsResponse(message);
  if (!response || response->header.id != ParseDnsHeader(query_)->id ||
      !IsAnswerTo(*response, lookup_)) {
    return std::nullopt;
  }
  return response->header;
}

void DnsExchange::OnUdpReadable() {
  std::array<uint8_t, 8192> buffer;
  // A few at a time: a flood of wrong answers must not hold the loop.
  for (int i = 0; i < 8; ++i) {
    const ssize_t n = TEMP_FAILURE_RETRY(::recv(socket_.get(), buffer.data(), buffer.size(), 0));
    if (n < 0) {
      // ECONNREFUSED: nobody listens there, the ICMP error says so.
      if (errno != EAGAIN) AttemptFailed();
      return;
    }
    const std::span<const uint8_t> message(buffer.data(), static_cast<size_t>(n));
    if (const auto header = Accept(message)) return OnResponse(*header, message);
  }
}

void DnsExchange::OnResponse(const DnsHeader& header, std::span<const uint8_t> message) {
  std::vector<uint8_t> answer(message.begin(), message.end());
  if (edns_ && MayDislikeEdns(header)) {
    edns_ = false;
    return NextAttempt();
  }
  if (IsRefusal(header) && attempt_ + 1 < upstreams_.size()) {
    refusal_ = std::move(answer);
    ++attempt_;
    edns_ = true;
    return NextAttempt();
  }
  if (header.truncated()) {
    refusal_ = std::move(answer);
    const bool started = StartTcp();
    attempt_timer_ = loop_.After(started ? timeouts_.attempt_us : 0, [this] { AttemptFailed(); });
    return;
  }
  Finish(std::move(answer));
}

bool DnsExchange::StartTcp() {
  if (!OpenSocket(SOCK_STREAM)) return false;
  watch_ = loop_.Watch(socket_.get(), EPOLLOUT, [this](uint32_t) { OnTcpWritable(); });
  return watch_ != 0;
}

void DnsExchange::OnTcpWritable() {
  loop_.Unwatch(std::exchange(watch_, 0));
  const std::array<uint8_t, 2> prefix{static_cast<uint8_t>(query_.size() >> 8),
                                      static_cast<uint8_t>(query_.size() & 0xff)};
  std::vector<uint8_t> bytes(prefix.begin(), prefix.end());
  bytes.insert(bytes.end(), query_.begin(), query_.end());
  // The first kilobyte of a new connection always fits; a failed connect shows here.
  const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n != static_cast<ssize_t>(bytes.size())) return AttemptFailed();
  watch_ = loop_.WatchReadable(socket_.get(), [this] { OnTcpReadable(); });
}

void DnsExchange::OnTcpReadable() {
  std::array<uint8_t, 16384> buffer;
  const ssize_t n = TEMP_FAILURE_RETRY(::recv(socket_.get(), buffer.data(), buffer.size(), 0));
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return AttemptFailed();
  received_.insert(received_.end(), buffer.begin(), buffer.begin() + n);
  if (received_.size() < 2) return;
  const size_t size = static_cast<size_t>(received_[0]) << 8 | received_[1];
  if (received_.size() < size + 2) return;
  const std::vector<uint8_t> message(received_.begin() + 2,
                                     received_.begin() + 2 + static_cast<std::ptrdiff_t>(size));
  if (!Accept(message)) return AttemptFailed();
  Finish(message);
}

void DnsExchange::Finish(std::vector<uint8_t> answer) {
  // Whoever waits comes first: the socket is closed when the call destroys this object, of which
  // nothing is touched afterwards.
  const Done done = std::move(done_);
  done(answer);
}

}  // namespace atl::netpolicy
