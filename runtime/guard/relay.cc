#include "runtime/guard/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace atl::guard {

Relay::~Relay() {
  loop_.Unwatch(a_.watch);
  loop_.Unwatch(b_.watch);
}

Status Relay::Begin() {
  for (Side* side : {&a_, &b_}) {
    side->bytes = std::make_unique<char[]>(kBuffer);
    ATOLL_ASSIGN(side->watch,
                 loop_.Watch(side->socket.get(), EPOLLIN,
                             [this, side](uint32_t events) { OnEvent(*side, events); }));
  }
  return {};
}

bool Relay::Pump(Side& from, Side& to) {
  for (;;) {
    if (from.begin < from.end) {
      const ssize_t n = ::send(to.socket.get(), from.bytes.get() + from.begin,
                               from.end - from.begin, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN;
      from.begin += static_cast<size_t>(n);
      continue;
    }
    if (from.read_all) {
      if (!std::exchange(from.told_end, true)) ::shutdown(to.socket.get(), SHUT_WR);
      return true;
    }
    const ssize_t n = ::recv(from.socket.get(), from.bytes.get(), kBuffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    from.begin = 0;
    from.end = static_cast<size_t>(n);
    from.read_all = n == 0;
  }
}

void Relay::Want(Side& side, const Side& other) {
  if (side.hung_up) return;
  const bool room = side.begin == side.end && !side.read_all;
  const bool waits = other.begin < other.end;
  loop_.Modify(side.watch, (room ? EPOLLIN : 0U) | (waits ? EPOLLOUT : 0U));
}

void Relay::OnEvent(Side& side, uint32_t events) {
  if (over_) return;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    // epoll reports a hang-up for ever. The rest is read when the other side has room for it.
    side.hung_up = true;
    loop_.Unwatch(std::exchange(side.watch, 0));
  }
  const bool whole = Pump(a_, b_) && Pump(b_, a_);
  const bool left = (a_.hung_up && a_.Delivered()) || (b_.hung_up && b_.Delivered());
  if (!whole || left || (a_.told_end && b_.told_end)) {
    over_ = true;
    loop_.Unwatch(std::exchange(a_.watch, 0));
    loop_.Unwatch(std::exchange(b_.watch, 0));
    loop_.Post(ended_);
    return;
  }
  Want(a_, b_);
  Want(b_, a_);
}

}  // namespace atl::guard
