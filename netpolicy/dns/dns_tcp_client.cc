#include "netpolicy/dns/dns_tcp_client.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "netpolicy/dns/dns_message.h"

namespace atl::netpolicy {
namespace {

// Enough for two of the longest answers.
constexpr size_t kMaxUnread = 2 * (kDnsMaxMessage + 2);

}  // namespace

DnsTcpClient::DnsTcpClient(Loop& loop, UniqueFd socket, int64_t idle_us, OnQuery on_query,
                           OnClosed on_closed)
    : loop_(loop),
      socket_(std::move(socket)),
      idle_us_(idle_us),
      on_query_(std::move(on_query)),
      on_closed_(std::move(on_closed)) {
  watch_ = loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t events) { OnEvents(events); });
  RestartIdleTimer();
}

DnsTcpClient::~DnsTcpClient() {
  if (watch_ != 0) loop_.Unwatch(watch_);
  loop_.Cancel(idle_timer_);
}

void DnsTcpClient::RestartIdleTimer() {
  loop_.Cancel(idle_timer_);
  idle_timer_ = loop_.After(idle_us_, [this] {
    const OnClosed closed = std::move(on_closed_);
    closed();
  });
}

void DnsTcpClient::CloseSoon() {
  // The object must survive the current call of its owner, so a timer closes it.
  if (std::exchange(closing_, true)) return;
  if (watch_ != 0) loop_.Unwatch(std::exchange(watch_, 0));
  idle_us_ = 0;
  RestartIdleTimer();
}

void DnsTcpClient::OnEvents(uint32_t events) {
  if (waiting_to_write_) Flush();
  if (!closing_ && events != EPOLLOUT) OnReadable();
}

void DnsTcpClient::OnReadable() {
  std::array<uint8_t, 4096> buffer;
  const ssize_t n = TEMP_FAILURE_RETRY(::recv(socket_.get(), buffer.data(), buffer.size(), 0));
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return CloseSoon();
  in_.insert(in_.end(), buffer.begin(), buffer.begin() + n);
  if (!TakeQueries()) CloseSoon();
}

bool DnsTcpClient::TakeQueries() {
  size_t at = 0;
  while (in_.size() - at >= 2 && !closing_) {
    const size_t size = static_cast<size_t>(in_[at]) << 8 | in_[at + 1];
    if (size < kDnsHeaderSize || size > kDnsMaxQuery) return false;
    if (in_.size() - at - 2 < size) break;
    // Only whole queries keep a connection alive, so a client cannot hold it with a drip of bytes.
    RestartIdleTimer();
    on_query_(std::span(in_).subspan(at + 2, size));
    at += 2 + size;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

void DnsTcpClient::Send(std::span<const uint8_t> message) {
  if (closing_) return;
  if (out_.size() + message.size() + 2 > kMaxUnread) return CloseSoon();
  out_.push_back(static_cast<uint8_t>(message.size() >> 8));
  out_.push_back(static_cast<uint8_t>(message.size() & 0xff));
  out_.insert(out_.end(), message.begin(), message.end());
  if (!waiting_to_write_) Flush();
}

void DnsTcpClient::Flush() {
  const ssize_t n =
      TEMP_FAILURE_RETRY(::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL));
  if (n < 0 && errno != EAGAIN) return CloseSoon();
  if (n > 0) out_.erase(out_.begin(), out_.begin() + n);
  waiting_to_write_ = !out_.empty();
  loop_.Modify(watch_, EPOLLIN | (waiting_to_write_ ? EPOLLOUT : 0U));
}

}  // namespace atl::netpolicy
