#include "runtime/sandbox/control_channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "runtime/wire/bytes.h"

namespace atl::sandbox {
namespace {

// A frame that does not fit the socket buffer (some 200 KiB) waits for execd to read. The loop has
// no "writable", and this is rare and short: execd reads in its first millisecond.
constexpr int64_t kRetryUs = 500;
// A report is one line for people.
constexpr uint32_t kMaxReport = 64 << 10;

}  // namespace

ControlChannel::~ControlChannel() {
  loop_.Cancel(retry_);
  loop_.Unwatch(watch_);
}

Status ControlChannel::Send(const wire::StartMessage& message) {
  const std::string bytes = message.Encode();
  if (bytes.size() > wire::kMaxStartFrame) {
    return Fail(Code::kInvalidArgument,
                "entrypoint and environment are " + std::to_string(bytes.size()) +
                    " bytes together, allowed are " + std::to_string(wire::kMaxStartFrame));
  }
  wire::Writer frame;
  frame.U32(static_cast<uint32_t>(bytes.size()));
  unsent_ = frame.Take() + bytes;
  Flush();
  return {};
}

void ControlChannel::Flush() {
  retry_ = 0;
  while (!unsent_.empty()) {
    const ssize_t n =
        ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      retry_ = loop_.After(kRetryUs, [this] { Flush(); });
      return;
    }
    // Any other error: the peer is gone, which the spawner's exit event says better.
    if (n < 0) break;
    unsent_.erase(0, static_cast<size_t>(n));
  }
  unsent_ = {};
}

void ControlChannel::Watch(Reported reported) {
  watch_ = loop_.WatchReadable(socket_.get(), [this, reported = std::move(reported)] {
    auto report = Read();
    if (!report) return;
    // Unwatch may destroy the function that is running, and the callback this object.
    const Reported call = reported;
    loop_.Unwatch(std::exchange(watch_, 0));
    call(std::move(*report));
  });
}

std::optional<wire::StartReport> ControlChannel::Drain() {
  auto report = Read();
  if (!report || !*report) return std::nullopt;
  return std::move(**report);
}

UniqueFd ControlChannel::TakeSocket(std::string* received) {
  loop_.Cancel(std::exchange(retry_, 0));
  loop_.Unwatch(std::exchange(watch_, 0));
  *received = std::move(received_);
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
    received_.append(chunk, static_cast<size_t>(n));
    wire::Reader head(received_);
    const uint32_t size = head.U32();
    if (!head.ok()) continue;
    if (size > kMaxReport) {
      return Fail(Code::kInvalidArgument, "execd announced a report of " + std::to_string(size) +
                                              " bytes, allowed are " + std::to_string(kMaxReport));
    }
    if (received_.size() < size + 4ULL) continue;
    const std::string report = received_.substr(4, size);
    received_.erase(0, size + 4ULL);
    return wire::DecodeStartReport(report);
  }
}

}  // namespace atl::sandbox
