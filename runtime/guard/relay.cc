#include "runtime/guard/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace atl::guard {
namespace {

ssize_t SendSome(int socket, const char* bytes, size_t size) {
  return TEMP_FAILURE_RETRY(::send(socket, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace

Relay::~Relay() {
  loop_.Unwatch(a_.watch);
  loop_.Unwatch(b_.watch);
}

Status Relay::Begin() {
  for (Side* side : {&a_, &b_}) {
    ATOLL_ASSIGN(side->watch,
                 loop_.Watch(side->socket.get(), EPOLLIN,
                             [this, side](uint32_t events) { OnEvent(*side, events); }));
  }
  return {};
}

bool Relay::Pump(Side& from, Side& to) {
  for (;;) {
    if (from.Waits()) {
      const ssize_t n =
          SendSome(to.socket.get(), from.bytes.get() + from.begin, from.end - from.begin);
      if (n < 0) return errno == EAGAIN;
      from.begin += static_cast<size_t>(n);
      if (from.begin < from.end) continue;
      from.bytes.reset();
    }
    if (from.read_all) {
      if (!std::exchange(from.told_end, true)) ::shutdown(to.socket.get(), SHUT_WR);
      return true;
    }
    char piece[kPiece];
    const ssize_t n = TEMP_FAILURE_RETRY(::recv(from.socket.get(), piece, kPiece, MSG_DONTWAIT));
    if (n < 0) return errno == EAGAIN;
    from.read_all = n == 0;
    const auto size = static_cast<size_t>(n);
    const ssize_t sent = n == 0 ? 0 : SendSome(to.socket.get(), piece, size);
    if (sent < 0 && errno != EAGAIN) return false;
    const size_t taken = sent < 0 ? 0 : static_cast<size_t>(sent);
    if (taken == size) continue;
    from.begin = 0;
    from.end = size - taken;
    from.bytes = std::make_unique_for_overwrite<char[]>(from.end);
    std::memcpy(from.bytes.get(), piece + taken, from.end);
  }
}

void Relay::Want(Side& side, const Side& other) {
  if (side.hung_up) return;
  const bool room = !side.Waits() && !side.read_all;
  loop_.Modify(side.watch, (room ? EPOLLIN : 0U) | (other.Waits() ? EPOLLOUT : 0U));
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
