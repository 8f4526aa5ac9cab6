#include "runtime/guard/vm/guest.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::guard {

Result<UniqueFd> Guest::Connect() {
  if (std::exchange(connected_, true)) {
    return Fail(Code::kAlreadyExists, "the guest's init has connected before");
  }
  ATOLL_ASSIGN(sys::SocketPair pair, sys::UnixPair(SOCK_STREAM));
  for (const int fd : {pair.a.get(), pair.b.get()}) ::fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
  socket_ = std::move(pair.a);
  ATOLL_ASSIGN(watch_, loop_.Watch(socket_.get(), EPOLLIN, [this](uint32_t) { Read(); }));
  return std::move(pair.b);
}

Status Guest::Say(const wire::vm::ToGuest& message) {
  if (!socket_) return Fail(Code::kUnavailable, "the guest's init is not there");
  const std::string frame = wire::vm::EncodeToGuest(message);
  const ssize_t n = TEMP_FAILURE_RETRY(
      ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  // A socket's buffer holds several of the few messages; a part of one would be of no use.
  if (n != static_cast<ssize_t>(frame.size())) {
    Leave();
    return Fail(Code::kUnavailable, "the guest's init does not read");
  }
  return {};
}

void Guest::Leave() {
  loop_.Unwatch(std::exchange(watch_, 0));
  socket_.reset();
}

void Guest::Read() {
  if (!socket_) return;
  char bytes[4096];
  const ssize_t n = TEMP_FAILURE_RETRY(::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT));
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return Leave();
  frames_.Append({bytes, static_cast<size_t>(n)});
  while (socket_) {
    const auto frame = frames_.Next();
    if (frame && !*frame) return;
    if (!frame) return Leave();
    const auto message = wire::vm::DecodeFromGuest(**frame);
    if (!message) return Leave();
    Take(*message);
  }
}

void Guest::Take(const wire::vm::FromGuest& message) {
  using namespace wire::vm;
  if (std::holds_alternative<Ready>(message)) {
    if (!std::exchange(ready_, true)) events_.ready();
  } else if (const auto* synced = std::get_if<Synced>(&message)) {
    events_.synced(*synced);
  } else if (const auto* ended = std::get_if<Ended>(&message)) {
    // The init waits for that before it ends the machine.
    Leave();
    events_.ended(static_cast<int>(ended->exit_code));
  } else {
    events_.failed(std::get<Failed>(message).message);
  }
}

}  // namespace atl::guard
