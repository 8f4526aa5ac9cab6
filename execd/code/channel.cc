#include "execd/code/channel.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace atl::execd {
namespace {

// Interval of attempts to connect: nothing reports when the kernel begins to listen.
constexpr int64_t kRetryUs = 2'000;
constexpr size_t kKernelRead = 64 << 10;
// Limits on reads in one turn of the loop, and after the kernel has ended.
constexpr int kReadsPerRound = 8, kReadsAtEnd = 16;

bool ListensLater(int error) {
  return error == ECONNREFUSED || error == ENOENT || error == EAGAIN;
}

}  // namespace

Channel::Channel(EventLoop* loop, Connector connect, std::string_view type,
                 std::string_view peer_type, Callbacks callbacks)
    : loop_(*loop),
      connect_(std::move(connect)),
      callbacks_(std::move(callbacks)),
      reader_(peer_type),
      out_(ZmtpHello(type)) {
  retry_ = loop_.After(0, [this] { Connect(); });
}

Channel::~Channel() {
  Close();
}

void Channel::Connect() {
  retry_ = 0;
  auto socket = connect_();
  if (socket) {
    socket_ = std::move(*socket);
    auto watch =
        loop_.Watch(socket_.get(), EPOLLIN | EPOLLOUT, [this](uint32_t seen) { OnEvents(seen); });
    if (!watch) return Broken(watch.error());
    watch_ = *watch;
  } else if (ListensLater(socket.error().error_number())) {
    retry_ = loop_.After(kRetryUs, [this] { Connect(); });
  } else {
    Broken(socket.error());
  }
}

void Channel::OnEvents(uint32_t events) {
  if (!connected_) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (ListensLater(error)) {
      Close();
      retry_ = loop_.After(kRetryUs, [this] { Connect(); });
      return;
    }
    if (error != 0) return Broken(SysError("connect to the kernel", error));
    connected_ = true;
  }
  if ((events & EPOLLOUT) != 0) Flush();
  if (broken_) return;
  // A closed connection is read to its end even while paused, because the end would otherwise never
  // be found.
  const bool ended = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if ((events & EPOLLIN) != 0 || ended) {
    for (int i = 0; i < kReadsPerRound && (!paused_ || ended) && Read(); ++i) {
    }
  }
  if (!broken_) Watch();
}

bool Channel::Read() {
  static char buffer[kKernelRead];  // shared: one thread, and unused between calls
  const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    Broken(got == 0 ? Error(Code::kUnavailable, "the kernel closed its connection")
                    : SysError("recv from the kernel"));
    return false;
  }
  const Status fed = reader_.Feed({buffer, static_cast<size_t>(got)}, callbacks_.on_message);
  if (!fed) {
    Broken(fed.error());
    return false;
  }
  if (reader_.ready() && !told_ready_) {
    told_ready_ = true;
    callbacks_.on_ready();
    Send(std::exchange(messages_, {}));
  }
  return true;
}

void Channel::Send(std::string_view messages) {
  if (broken_) return;
  // Not sent earlier, although that would save a round trip: a PUB socket of libzmq that receives a
  // subscription in the same segment as the greeting closes the connection.
  if (!told_ready_) {
    messages_.append(messages);
    return;
  }
  out_.append(messages);
  Flush();
  if (!broken_) Watch();
}

void Channel::Flush() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return Broken(SysError("send to the kernel"));
    out_.erase(0, static_cast<size_t>(sent));
  }
  if (out_.capacity() > kKernelRead) out_.shrink_to_fit();
}

void Channel::Pause() {
  paused_ = true;
  if (connected_) Watch();
}

void Channel::Resume() {
  paused_ = false;
  if (connected_) Watch();
}

void Channel::Drain() {
  for (int i = 0; i < kReadsAtEnd && connected_ && !broken_ && Read(); ++i) {
  }
}

void Channel::Watch() {
  if (watch_ == 0) return;
  const uint32_t events = (paused_ ? 0u : EPOLLIN) | (out_.empty() ? 0u : EPOLLOUT);
  loop_.Modify(watch_, events);
}

void Channel::Close() {
  loop_.Unwatch(watch_);
  loop_.Cancel(retry_);
  watch_ = retry_ = 0;
  socket_.reset();
}

void Channel::Broken(const Error& error) {
  if (broken_) return;
  broken_ = true;
  connected_ = false;
  Close();
  callbacks_.on_broken(error);
}

}  // namespace atl::execd
