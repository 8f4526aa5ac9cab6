#include "runtime/guest/channel.h"

#include <linux/vm_sockets.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "runtime/base/clock.h"

namespace atl::guest {

Result<Channel> Channel::Dial() {
  UniqueFd socket(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket AF_VSOCK");
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = wire::vm::kHostCid;
  address.svm_port = wire::vm::kInitPort;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect vsock port " + std::to_string(wire::vm::kInitPort));
  }
  return Channel(std::move(socket));
}

Status Channel::Send(const wire::vm::FromGuest& message) {
  const std::string frame = wire::vm::EncodeFromGuest(message);
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t n = TEMP_FAILURE_RETRY(
        ::send(socket_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL));
    if (n < 0) return FailSys("send to the guard");
    sent += static_cast<size_t>(n);
  }
  return {};
}

Status Channel::Fill() {
  char bytes[4096];
  const ssize_t n = TEMP_FAILURE_RETRY(::recv(socket_.get(), bytes, sizeof bytes, 0));
  if (n < 0) return FailSys("recv from the guard");
  if (n == 0) return Fail(Code::kUnavailable, "the guard has gone");
  frames_.Append({bytes, static_cast<size_t>(n)});
  return {};
}

Result<wire::vm::ToGuest> Channel::Receive() {
  for (;;) {
    ATOLL_ASSIGN(const std::optional<std::string_view> frame, frames_.Next());
    if (frame) return wire::vm::DecodeToGuest(*frame);
    ATOLL_TRY(Fill());
  }
}

Result<std::optional<wire::vm::ToGuest>> Channel::ReceiveArrived() {
  pollfd readable{socket_.get(), POLLIN, 0};
  if (::poll(&readable, 1, 0) > 0) ATOLL_TRY(Fill());
  ATOLL_ASSIGN(const std::optional<std::string_view> frame, frames_.Next());
  if (!frame) return std::optional<wire::vm::ToGuest>();
  ATOLL_ASSIGN(wire::vm::ToGuest message, wire::vm::DecodeToGuest(*frame));
  return std::optional(std::move(message));
}

void Channel::AwaitClose(int limit_ms) {
  ::shutdown(socket_.get(), SHUT_WR);
  const int64_t deadline = SystemClock().BootMicros() + int64_t{limit_ms} * 1000;
  for (;;) {
    const int64_t left = (deadline - SystemClock().BootMicros()) / 1000;
    pollfd readable{socket_.get(), POLLIN, 0};
    if (left <= 0 || TEMP_FAILURE_RETRY(::poll(&readable, 1, static_cast<int>(left))) <= 0) return;
    if (!Fill()) return;
  }
}

}  // namespace atl::guest
