#include "tools/atoll/verbs/port_forward.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace atl::cli {
namespace {

constexpr size_t kHighWater = 256 << 10;
constexpr size_t kReadSize = 64 << 10;

bool MustWait(int error) {
  return error == EAGAIN || error == EINTR;
}

}  // namespace

Status Relay(UniqueFd local, Upgraded remote) {
  const int flags = fcntl(local.get(), F_GETFL);
  if (flags < 0 || fcntl(local.get(), F_SETFL, flags | O_NONBLOCK) != 0) return FailSys("fcntl");
  std::string up;
  http::Buffer down;
  std::memcpy(down.Prepare(remote.ahead.size()).data, remote.ahead.data(), remote.ahead.size());
  down.Commit(remote.ahead.size());
  bool local_ended = false, told = false, remote_ended = false;
  while (!remote_ended || !down.empty()) {
    pollfd fds[2] = {{local.get(), 0, 0}, {remote.socket.fd(), 0, 0}};
    if (!local_ended && up.size() < kHighWater) fds[0].events |= POLLIN;
    if (!down.empty()) fds[0].events |= POLLOUT;
    if (!remote_ended && down.size() < kHighWater) fds[1].events |= POLLIN;
    if (!up.empty() && !remote_ended) fds[1].events |= POLLOUT;
    // One that waits for nothing would still report its end, again and again.
    for (pollfd& one : fds) {
      if (one.events == 0) one.fd = -1;
    }
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return FailSys("poll");
    if (fds[0].revents & (POLLIN | POLLHUP | POLLERR) && !local_ended) {
      char bytes[kReadSize];
      const ssize_t n = recv(local.get(), bytes, sizeof bytes, 0);
      if (n > 0) up.append(bytes, static_cast<size_t>(n));
      if (n < 0 && !MustWait(errno)) return {};  // whoever connected has gone, and wants no more
      local_ended = n == 0;
    }
    if (fds[1].revents != 0 && !remote_ended && down.size() < kHighWater) {
      ATOLL_ASSIGN(const bool open, remote.socket.ReadSome(&down));
      remote_ended = !open;
    }
    if (!up.empty() && !remote_ended) {
      ATOLL_ASSIGN(const size_t sent, remote.socket.SendSome(up));
      up.erase(0, sent);
    }
    if (local_ended && up.empty() && !told) {
      told = true;
      remote.socket.FinishSending();
    }
    if (!down.empty()) {
      const ssize_t n = send(local.get(), down.data(), down.size(), MSG_NOSIGNAL);
      if (n < 0 && !MustWait(errno)) return {};
      if (n > 0) down.Consume(static_cast<size_t>(n));
    }
  }
  return {};
}

}  // namespace atl::cli
