#include "runtime/http/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <cerrno>
#include <utility>

#include "runtime/http/stream.h"

namespace atl::http {
namespace {

constexpr IoStep kBroken{IoStep::Kind::kFailed, 0, ECONNABORTED};

// Clears both error states, so that each call leaves only its own errors.
void ForgetErrors() {
  ERR_clear_error();
  errno = 0;
}

}  // namespace

void TlsSession::SslFreer::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

TlsSession::TlsSession(int socket, std::shared_ptr<const TlsContext> context,
                       const std::string& server)
    : context_(std::move(context)), ssl_(SSL_new(context_->get())) {
  broken_ = !ssl_ || SSL_set_fd(ssl_.get(), socket) != 1;
  if (broken_) return;
  if (server.empty()) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  // The name is verified in the certificate, and sent to the server, which may have several
  // certificates.
  broken_ = SSL_set1_host(ssl_.get(), server.c_str()) != 1 ||
            SSL_set_tlsext_host_name(ssl_.get(), server.c_str()) != 1;
  SSL_set_connect_state(ssl_.get());
}

TlsSession::~TlsSession() = default;

IoStep TlsSession::Judge(int result) {
  const int number = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_NONE:
      return {IoStep::Kind::kDone, static_cast<size_t>(result)};
    case SSL_ERROR_WANT_READ:
      return {IoStep::Kind::kReadable};
    case SSL_ERROR_WANT_WRITE:
      return {IoStep::Kind::kWritable};
    case SSL_ERROR_ZERO_RETURN:
      return {IoStep::Kind::kFailed, 0, kEndOfStream};
    case SSL_ERROR_SYSCALL:
      broken_ = true;
      return {IoStep::Kind::kFailed, 0, number == 0 ? ECONNRESET : number};
    default:
      break;
  }
  broken_ = true;
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (reason == SSL_R_HTTP_REQUEST) return {IoStep::Kind::kFailed, 0, ENOPROTOOPT};
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) return {IoStep::Kind::kFailed, 0, ECONNRESET};
  return kBroken;
}

IoStep TlsSession::Handshake() {
  if (broken_) return {IoStep::Kind::kFailed, 0, ENOMEM};
  ForgetErrors();
  const IoStep step = Judge(SSL_do_handshake(ssl_.get()));
  established_ = step.kind == IoStep::Kind::kDone;
  return step;
}

IoStep TlsSession::Read(char* data, size_t size) {
  if (broken_) return kBroken;
  ForgetErrors();
  return Judge(SSL_read(ssl_.get(), data, static_cast<int>(size)));
}

IoStep TlsSession::Write(std::string_view bytes) {
  if (broken_) return kBroken;
  ForgetErrors();
  return Judge(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())));
}

IoStep TlsSession::Shutdown() {
  if (!established_ || broken_) return {};
  ForgetErrors();
  const int result = SSL_shutdown(ssl_.get());
  // 0: close_notify was sent, and the peer has not sent its own yet.
  return result < 0 ? Judge(result) : IoStep{};
}

void TlsSession::TryShutdown() {
  if (!established_ || broken_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  broken_ = true;
}

const char* TlsSession::verify_error() const {
  const long verdict = ssl_ ? SSL_get_verify_result(ssl_.get()) : X509_V_OK;
  return verdict == X509_V_OK ? nullptr : X509_verify_cert_error_string(verdict);
}

}  // namespace atl::http
