#include "execd/run/output_feed.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/clock.h"
#include "runtime/wire/output.h"

namespace atl::execd {
namespace {

// The kernel doubles this size. If a daemon is killed, the bytes in its socket and those it had
// read but not written must still be in the TimedOutput for the next daemon. This buffer and one
// read of the daemon are together smaller than the TimedOutput.
constexpr int kSocketBuffer = 8 << 10;

static_assert(static_cast<int>(OutputStream::kStdout) ==
              static_cast<int>(wire::OutputFrame::Kind::kStdout));
static_assert(static_cast<int>(OutputStream::kStderr) ==
              static_cast<int>(wire::OutputFrame::Kind::kStderr));
static_assert(static_cast<int>(OutputStream::kNote) ==
              static_cast<int>(wire::OutputFrame::Kind::kNote));

}  // namespace

void OutputFeed::Connect(UniqueFd socket, uint64_t offset, std::string first) {
  if (socket_) Disconnect();
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
  auto watch = loop_.Watch(socket.get(), EPOLLIN, [this](uint32_t events) { OnEvents(events); });
  if (!watch) return;
  watch_ = *watch;
  socket_ = std::move(socket);
  frame_ = std::move(first);
  frame_taken_ = 0;
  sent_ = std::min(offset, output_.end());
  blocked_ = false;
  progress_us_ = MonotonicMicros();
  Send();
}

uint64_t OutputFeed::unsent() const {
  return output_.end() - std::max(sent_, output_.begin());
}

bool OutputFeed::NextFrame() {
  wire::OutputFrame frame;
  frame.offset = sent_;
  if (sent_ >= output_.end()) return false;
  if (sent_ < output_.begin()) {
    frame.kind = wire::OutputFrame::Kind::kLost;
    frame.lost = output_.begin() - sent_;
    frame.time_us = output_.Read(output_.begin(), 1).time_us;
  } else {
    TimedOutput::Piece piece = output_.Read(sent_, wire::kMaxOutputBytes);
    frame.kind = static_cast<wire::OutputFrame::Kind>(piece.stream);
    frame.time_us = piece.time_us;
    frame.bytes = std::move(piece.bytes);
  }
  sent_ = frame.end();
  frame_ = frame.Encode();
  frame_taken_ = 0;
  return true;
}

void OutputFeed::Send() {
  if (!blocked_) SendNow();
}

void OutputFeed::SendNow() {
  while (socket_ && (!frame_.empty() || NextFrame())) {
    const ssize_t n = ::send(socket_.get(), frame_.data() + frame_taken_,
                             frame_.size() - frame_taken_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Block(true);
    if (n < 0) return Disconnect();
    progress_us_ = loop_.now_us();
    frame_taken_ += static_cast<size_t>(n);
    // Frees the buffer, because most programs are silent most of the time.
    if (frame_taken_ == frame_.size()) frame_ = std::string();
  }
  Block(false);
}

void OutputFeed::Block(bool blocked) {
  if (blocked == blocked_) return;
  blocked_ = blocked;
  loop_.Modify(watch_, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void OutputFeed::OnEvents(uint32_t events) {
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
    char unexpected[256];
    const ssize_t n = ::recv(socket_.get(), unexpected, sizeof unexpected, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) Disconnect();
  }
  if (socket_ && (events & EPOLLOUT)) SendNow();
  on_change_();
}

void OutputFeed::Disconnect() {
  loop_.Unwatch(watch_);
  socket_.reset();
  frame_ = std::string();
  blocked_ = false;
}

}  // namespace atl::execd
