#include "runtime/http/client_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "runtime/base/unix_address.h"
namespace atl::http {
namespace {

constexpr int kConnectTimeoutMs = 10'000;
constexpr size_t kAnswerRead = 64 << 10;
constexpr uint64_t kSendFileSize = 1 << 20;

bool MustWait(int number) {
  return number == EAGAIN || number == EINTR;
}

Error Broken(std::string_view call) {
  return {Code::kUnavailable, SysError(call).message(), errno};
}

Error TlsBroken(const std::string& what) {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return {Code::kUnavailable, what + ": " + (reason != nullptr ? reason : "the connection broke")};
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

void ClientSocket::SslFreer::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Result<short> ClientSocket::Wait(short events, int timeout_ms) const {
  pollfd fds[2] = {{fd_.get(), events, 0}, {cancel_fd_, POLLIN, 0}};
  int ready = 0;
  do {
    ready = poll(fds, 2, timeout_ms);  // poll ignores negative descriptors
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

Status ClientSocket::Handshake(const BaseUrl& url, const TlsContext& trust) {
  ERR_clear_error();
  ssl_.reset(SSL_new(trust.get()));
  if (!ssl_ || SSL_set_fd(ssl_.get(), fd_.get()) != 1) return Fail(TlsBroken("a TLS session"));
  // The name is verified in the certificate, and sent to the server, which may have several
  // certificates.
  const bool named =
      IsAddress(url.host)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), url.host.c_str()) == 1
          : SSL_set1_host(ssl_.get(), url.host.c_str()) == 1 &&
                SSL_set_tlsext_host_name(ssl_.get(), url.host.c_str()) == 1;
  if (!named) return Fail(TlsBroken("the name " + url.host));
  while (true) {
    ERR_clear_error();
    const int result = SSL_connect(ssl_.get());
    if (result == 1) return {};
    const int wants = SSL_get_error(ssl_.get(), result);
    if (wants == SSL_ERROR_WANT_READ || wants == SSL_ERROR_WANT_WRITE) {
      ATOLL_TRY(Wait(wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, kConnectTimeoutMs));
      continue;
    }
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (verdict == X509_V_OK) return Fail(TlsBroken("TLS handshake"));
    return Fail(Code::kUnavailable, "the certificate of " + url.host + " is not accepted: " +
                                        X509_verify_cert_error_string(verdict));
  }
}

Result<ClientSocket> ClientSocket::Connect(const BaseUrl& url, const TlsContext* trust,
                                           int cancel_fd) {
  if (!url.socket_path.empty()) {
    ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(url.socket_path));
    ClientSocket local(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
                       cancel_fd);
    if (!local.fd_) return FailSys("socket");
    if (connect(local.fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
        0) {
      return local;
    }
    const Error error = SysError(url.socket_path);
    return Fail(Error(Code::kUnavailable, error.message(), error.error_number()));
  }
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
    Status connected = candidate.FinishConnect();
    if (connected && url.tls) connected = candidate.Handshake(url, *trust);
    if (connected) return candidate;
    last = connected.error();
    if (last.error_number() == ECANCELED) break;
  }
  return Fail(Error(Code::kUnavailable, where + ": " + last.message(), last.error_number()));
}

bool ClientSocket::HasInput() const {
  char byte;
  if (!ssl_) return recv(fd_.get(), &byte, 1, MSG_PEEK) >= 0 || !MustWait(errno);
  ERR_clear_error();
  const int n = SSL_peek(ssl_.get(), &byte, 1);
  return n > 0 || SSL_get_error(ssl_.get(), n) != SSL_ERROR_WANT_READ;
}

bool ClientSocket::IsQuiet() const {
  return !HasInput();
}

Result<bool> ClientSocket::AwaitWritable(bool* answered) {
  while (true) {
    ATOLL_ASSIGN(const short events, Wait(POLLIN | POLLOUT, -1));
    // Readable does not mean answered with TLS: a TLS server sends tickets unasked.
    *answered = (events & POLLIN) != 0 && (!ssl_ || HasInput());
    if (*answered || (events & POLLOUT) != 0) return !*answered;
  }
}

Result<size_t> ClientSocket::SendSome(std::string_view bytes) {
  if (ssl_) {
    ERR_clear_error();
    size_t sent = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent);
    if (result == 1) return sent;
    const int wants = SSL_get_error(ssl_.get(), result);
    if (wants == SSL_ERROR_WANT_WRITE || wants == SSL_ERROR_WANT_READ) return size_t{0};
    return Fail(TlsBroken("send"));
  }
  const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n >= 0) return static_cast<size_t>(n);
  if (MustWait(errno)) return size_t{0};
  return Fail(Broken("send"));
}

void ClientSocket::FinishSending() {
  ERR_clear_error();
  if (ssl_) (void)SSL_shutdown(ssl_.get());
  (void)shutdown(fd_.get(), SHUT_WR);
}

Result<size_t> ClientSocket::SendFileSome(int fd, uint64_t offset, uint64_t size) {
  if (ssl_) {
    std::string bytes(static_cast<size_t>(std::min<uint64_t>(size, kAnswerRead)), '\0');
    const ssize_t n = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0) return FailSys("read the file");
    if (n == 0) return Fail(Code::kFailedPrecondition, "the file was truncated while it was sent");
    return SendSome(std::string_view(bytes).substr(0, static_cast<size_t>(n)));
  }
  auto position = static_cast<off_t>(offset);
  const ssize_t n =
      sendfile(fd_.get(), fd, &position, static_cast<size_t>(std::min(size, kSendFileSize)));
  if (n > 0) return static_cast<size_t>(n);
  if (n == 0) return Fail(Code::kFailedPrecondition, "the file was truncated while it was sent");
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

Status ClientSocket::SendAll(std::string_view bytes) {
  while (!bytes.empty()) {
    ATOLL_TRY(Wait(POLLOUT, -1));
    ATOLL_ASSIGN(const size_t n, SendSome(bytes));
    bytes.remove_prefix(n);
  }
  return {};
}

Result<ClientSocket::Input> ClientSocket::Receive(Buffer* buffer) {
  const Buffer::Space space = buffer->Prepare(kAnswerRead);
  if (!ssl_) {
    const ssize_t n = recv(fd_.get(), space.data, space.size, 0);
    if (n > 0) buffer->Commit(static_cast<size_t>(n));
    if (n >= 0) return n > 0 ? Input::kData : Input::kEnd;
    if (MustWait(errno)) return Input::kNone;
    return Fail(Broken("receive"));
  }
  ERR_clear_error();
  size_t size = 0;
  const int result = SSL_read_ex(ssl_.get(), space.data, space.size, &size);
  buffer->Commit(size);
  if (result == 1) return Input::kData;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Input::kNone;
    case SSL_ERROR_ZERO_RETURN:
      return Input::kEnd;
    default:
      // A TLS stream that ends without close_notify may have been cut by anybody on the path.
      return Fail(TlsBroken("receive"));
  }
}

Result<bool> ClientSocket::Read(Buffer* buffer) {
  while (true) {
    ATOLL_ASSIGN(const Input input, Receive(buffer));
    if (input != Input::kNone) return input == Input::kData;
    ATOLL_TRY(Wait(POLLIN, -1));
  }
}

Result<bool> ClientSocket::ReadSome(Buffer* buffer) {
  while (true) {
    ATOLL_ASSIGN(const Input input, Receive(buffer));
    if (input == Input::kEnd) return false;
    if (input == Input::kNone || !ssl_ || SSL_pending(ssl_.get()) == 0) return true;
  }
}

}  // namespace atl::http
