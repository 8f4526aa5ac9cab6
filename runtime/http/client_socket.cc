#include "runtime/http/client_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

namespace atl::http {
namespace {

constexpr int kConnectTimeoutMs = 10'000;
constexpr size_t kReadSize = 64 << 10;
constexpr uint64_t kSendFileSize = 1 << 20;

bool MustWait(int number) {
  return number == EAGAIN || number == EINTR;
}

Error Broken(std::string_view call) {
  return {Code::kUnavailable, SysError(call).message(), errno};
}

}  // namespace

Result<short> ClientSocket::Wait(short events, int timeout_ms) const {
  pollfd fds[2] = {{fd_.get(), events, 0}, {cancel_fd_, POLLIN, 0}};
  int ready = 0;
  do {
    ready = poll(fds, 2, timeout_ms);  // a negative descriptor is ignored
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return FailSys("poll");
  if (ready == 0) return Fail(Error(Code::kDeadlineExceeded, "timed out", ETIMEDOUT));
  if (fds[1].revents != 0) return Fail(Error(Code::kUnavailable, "cancelled", ECANCELED));
  return fds[0].revents;
}

Status ClientSocket::FinishConnect() {
  ATOLL_TRY(Wait(POLLOUT, kConnectTimeoutMs));
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return FailSys("getsockopt");
  if (error != 0) return Fail(SysError("connect", error));
  const int on = 1;
  (void)setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return {};
}

Result<ClientSocket> ClientSocket::Connect(const BaseUrl& url, int cancel_fd) {
  const std::string where = url.host + " port " + std::to_string(url.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &list);
  if (failed != 0) {
    return Fail(Code::kUnavailable, "cannot resolve " + url.host + ": " + gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  Error last(Code::kUnavailable, "no address");
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    ClientSocket candidate(
        UniqueFd(socket(entry->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        cancel_fd);
    if (!candidate.fd_) {
      last = SysError("socket");
      continue;
    }
    if (connect(candidate.fd_.get(), entry->ai_addr, entry->ai_addrlen) != 0 &&
        errno != EINPROGRESS) {
      last = SysError("connect");
      continue;
    }
    const Status connected = candidate.FinishConnect();
    if (connected) return candidate;
    last = connected.error();
    if (last.error_number() == ECANCELED) break;
  }
  return Fail(Error(Code::kUnavailable, where + ": " + last.message(), last.error_number()));
}

bool ClientSocket::IsQuiet() const {
  char byte;
  return recv(fd_.get(), &byte, 1, MSG_PEEK) < 0 && MustWait(errno);
}

Result<bool> ClientSocket::AwaitWritable(bool* answered) {
  ATOLL_ASSIGN(const short events, Wait(POLLIN | POLLOUT, -1));
  *answered = (events & POLLIN) != 0;
  return !*answered;
}

Result<size_t> ClientSocket::SendSome(std::string_view bytes) {
  const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  if (MustWait(errno)) return size_t{0};
  return Fail(Broken("send"));
}

Result<size_t> ClientSocket::SendFileSome(int fd, uint64_t offset, uint64_t size) {
  auto position = static_cast<off_t>(offset);
  const ssize_t n =
      sendfile(fd_.get(), fd, &position, static_cast<size_t>(std::min(size, kSendFileSize)));
  if (n > 0) return static_cast<size_t>(n);
  if (n == 0) return Fail(Code::kFailedPrecondition, "the file became shorter while it was sent");
  if (MustWait(errno)) return size_t{0};
  return Fail(Broken("sendfile"));
}

Status ClientSocket::Send(std::string_view bytes, bool* answered) {
  while (!bytes.empty()) {
    ATOLL_ASSIGN(const bool writable, AwaitWritable(answered));
    if (!writable) return {};
    ATOLL_ASSIGN(const size_t n, SendSome(bytes));
    bytes.remove_prefix(n);
  }
  return {};
}

Result<bool> ClientSocket::Read(Buffer* buffer) {
  while (true) {
    ATOLL_TRY(Wait(POLLIN, -1));
    const Buffer::Space space = buffer->Prepare(kReadSize);
    const ssize_t n = recv(fd_.get(), space.data, space.size, 0);
    if (n > 0) buffer->Commit(static_cast<size_t>(n));
    if (n >= 0) return n > 0;
    if (!MustWait(errno)) return Fail(Broken("receive"));
  }
}

}  // namespace atl::http
