#include "runtime/sandbox/create/control_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace atl::sandbox {

ControlChannel::~ControlChannel() {
  loop_.Unwatch(watch_);
}

Status ControlChannel::Send(const wire::StartMessage& message) {
  const std::string bytes = message.Encode();
  if (bytes.size() > wire::kMaxStartFrame) {
    return Fail(Code::kInvalidArgument,
                "entrypoint and environment are " + std::to_string(bytes.size()) +
                    " bytes together, more than " + std::to_string(wire::kMaxStartFrame));
  }
  unsent_ = wire::Frame(bytes);
  Flush();
  return {};
}

bool ControlChannel::PeerIsThere() const {
  pollfd peer{socket_.get(), 0, 0};
  return ::poll(&peer, 1, 0) == 0;
}

// A frame that does not fit into the socket buffer (some 200 KiB) waits until execd reads.
void ControlChannel::Flush() {
  while (!unsent_.empty()) {
    const ssize_t n =
        ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Await();
    // Any other error means that the peer is gone. The spawner's exit event reports that with more
    // detail.
    if (n < 0) break;
    unsent_.erase(0, static_cast<size_t>(n));
  }
  unsent_ = {};
  Await();
}

void ControlChannel::Await() {
  const uint32_t events = (unsent_.empty() ? 0U : EPOLLOUT) | (reported_ ? EPOLLIN : 0U);
  if (events == 0) return loop_.Unwatch(std::exchange(watch_, 0));
  if (watch_ != 0) return loop_.Modify(watch_, events);
  watch_ = loop_.Watch(socket_.get(), events, [this](uint32_t happened) { OnEvents(happened); });
}

void ControlChannel::OnEvents(uint32_t events) {
  // The loop reports a hangup or an error with any watched event.
  if (!unsent_.empty() && events != EPOLLIN) Flush();
  if (!reported_ || events == EPOLLOUT) return;
  auto report = Read();
  if (!report) return;
  const Reported call = std::exchange(reported_, nullptr);
  Await();
  call(std::move(*report));  // may destroy this object
}

void ControlChannel::Watch(Reported reported) {
  reported_ = std::move(reported);
  Await();
}

std::optional<wire::StartReport> ControlChannel::Drain() {
  auto report = Read();
  if (!report || !*report) return std::nullopt;
  return std::move(**report);
}

UniqueFd ControlChannel::TakeSocket(std::string* received) {
  loop_.Unwatch(std::exchange(watch_, 0));
  *received = received_.TakePending();
  return std::move(socket_);
}

std::optional<Result<wire::StartReport>> ControlChannel::Read() {
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return std::nullopt;
    if (n < 0) return Fail(SysError("recv from execd's control socket"));
    if (n == 0) {
      return Fail(Code::kUnavailable, "execd closed its control socket without a report");
    }
    received_.Append({chunk, static_cast<size_t>(n)});
    const auto report = received_.Next();
    if (!report) return Fail(Error(report.error()).Wrap("execd's report"));
    if (*report) return wire::DecodeStartReport(**report);
  }
}

}  // namespace atl::sandbox
