#include "netpolicy/splice/splice_dial.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/descriptors.h"

namespace atl::netpolicy {
namespace {

bool Begins(const IpAddress& address, std::initializer_list<uint8_t> bytes) {
  return std::equal(bytes.begin(), bytes.end(), address.bytes.begin());
}

}  // namespace

bool NeverDialled(const IpAddress& address) {
  const auto& b = address.bytes;
  if (!address.ipv6) {
    return b[0] == 0 || b[0] == 127 || Begins(address, {169, 254}) || b[0] >= 224;
  }
  // The first 96 bits are 0: unspecified, loopback, and the obsolete IPv4-compatible addresses.
  const bool low = std::all_of(b.begin(), b.begin() + 12, [](uint8_t x) { return x == 0; });
  const bool mapped = std::all_of(b.begin(), b.begin() + 10, [](uint8_t x) { return x == 0; }) &&
                      b[10] == 0xff && b[11] == 0xff;
  const bool link_local = b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
  return low || mapped || link_local || b[0] == 0xff;
}

Status SetRelayOptions(int socket) {
  struct Option {
    int level, name, value;
  };
  constexpr Option kOptions[] = {
      {SOL_SOCKET, SO_KEEPALIVE, 1},    {IPPROTO_TCP, TCP_KEEPIDLE, 120},
      {IPPROTO_TCP, TCP_KEEPINTVL, 15}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
      {IPPROTO_TCP, TCP_NODELAY, 1},
  };
  for (const Option& option : kOptions) {
    if (::setsockopt(socket, option.level, option.name, &option.value, sizeof option.value) != 0) {
      return FailSys("setsockopt " + std::to_string(option.name) + " on a spliced connection");
    }
  }
  return {};
}

SpliceDial::SpliceDial(Loop& loop, Watch watch, std::vector<Endpoint> targets, Timeouts timeouts,
                       const Connect& connect, OnDone done)
    : loop_(loop),
      watch_(watch),
      targets_(std::move(targets)),
      timeouts_(timeouts),
      connect_(connect),
      done_(std::move(done)) {}

void SpliceDial::Start() {
  deadline_us_ = SystemClock().BootMicros() + timeouts_.total_us;
  TryNext();
}

void SpliceDial::TryNext() {
  loop_.Cancel(std::exchange(timer_, 0));
  socket_.reset();
  while (next_ < targets_.size()) {
    const int64_t left = deadline_us_ - SystemClock().BootMicros();
    if (left <= 0) break;
    if (!Attempt(targets_[next_++])) continue;
    timer_ = loop_.After(std::min(left, timeouts_.attempt_us), [this] { TryNext(); });
    return;
  }
  Finish({});
}

bool SpliceDial::Attempt(const Endpoint& target) {
  socket_.reset(::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_ || IsSpare(socket_.get())) return false;
  if (!SetRelayOptions(socket_.get())) return false;
  if (connect_(socket_.get(), target) != 0 && errno != EINPROGRESS) return false;
  // Added after connect, because epoll reports a socket that is not connecting as hung up.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = watch_.tag;
  return ::epoll_ctl(watch_.epoll, EPOLL_CTL_ADD, socket_.get(), &event) == 0;
}

void SpliceDial::Stop() {
  loop_.Cancel(std::exchange(timer_, 0));
  socket_.reset();
  next_ = targets_.size();
}

void SpliceDial::OnEvent() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return TryNext();
  }
  // The event may belong to the socket of an earlier attempt. Only a peer proves that this socket
  // is connected.
  Endpoint peer;
  if (::getpeername(socket_.get(), peer.get(), &peer.size) != 0) return;
  Finish(std::move(socket_));
}

void SpliceDial::Finish(UniqueFd socket) {
  loop_.Cancel(std::exchange(timer_, 0));
  const OnDone done = std::move(done_);
  done(std::move(socket));
}

}  // namespace atl::netpolicy
