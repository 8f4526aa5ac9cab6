#include "runtime/http/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace atl::http {
namespace {

// Asio's composed operations must not be continued from within the call that starts them.
void Deliver(Stream& socket, bool in_call, TlsSession::Done done, const ErrorCode& error,
             size_t size) {
  if (!in_call) return done(error, size);
  asio::post(socket.get_executor(), [done = std::move(done), error, size] { done(error, size); });
}

}  // namespace

void TlsSession::SslFreer::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

TlsSession::TlsSession(Stream& socket, std::shared_ptr<const TlsContext> context)
    : socket_(socket), context_(std::move(context)), ssl_(SSL_new(context_->get())) {
  if (ssl_ && SSL_set_fd(ssl_.get(), socket_.native_handle()) == 1) {
    SSL_set_accept_state(ssl_.get());
  } else {
    broken_ = true;
  }
}

TlsSession::~TlsSession() = default;

TlsSession::Step TlsSession::Judge(int result) {
  const int number = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_NONE:
      return {Step::Kind::kDone, static_cast<size_t>(result), {}};
    case SSL_ERROR_WANT_READ:
      return {Step::Kind::kReadable, 0, {}};
    case SSL_ERROR_WANT_WRITE:
      return {Step::Kind::kWritable, 0, {}};
    case SSL_ERROR_ZERO_RETURN:
      return {Step::Kind::kFailed, 0, asio::error::eof};
    case SSL_ERROR_SYSCALL:
      broken_ = true;
      if (number == 0) return {Step::Kind::kFailed, 0, asio::error::connection_reset};
      return {Step::Kind::kFailed, 0, ErrorCode(number, boost::system::system_category())};
    default:
      break;
  }
  broken_ = true;
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (reason == SSL_R_HTTP_REQUEST) {
    return {Step::Kind::kFailed, 0, asio::error::no_protocol_option};
  }
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return {Step::Kind::kFailed, 0, asio::error::connection_reset};
  }
  return {Step::Kind::kFailed, 0, asio::error::connection_aborted};
}

bool TlsSession::Await(const Step& step, std::function<void(const ErrorCode&)> again) {
  if (step.kind != Step::Kind::kReadable && step.kind != Step::Kind::kWritable) return false;
  socket_.async_wait(step.kind == Step::Kind::kReadable ? Stream::wait_read : Stream::wait_write,
                     [weak = weak_from_this(), again = std::move(again)](const ErrorCode& error) {
                       // Without the session nobody waits but who must be told of the end.
                       const auto self = weak.lock();
                       again(self ? error : ErrorCode(asio::error::operation_aborted));
                     });
  return true;
}

void TlsSession::Handshake(std::function<void(const ErrorCode&)> done) {
  if (broken_) return done(asio::error::no_memory);
  ERR_clear_error();
  errno = 0;
  const Step step = Judge(SSL_do_handshake(ssl_.get()));
  const bool waits = Await(step, [this, done](const ErrorCode& error) {
    if (error) return done(error);
    Handshake(done);
  });
  if (waits) return;
  established_ = step.kind == Step::Kind::kDone;
  done(step.error);
}

void TlsSession::Read(asio::mutable_buffer buffer, Done done) {
  TryRead(buffer, std::move(done), true);
}

void TlsSession::TryRead(asio::mutable_buffer buffer, Done done, bool in_call) {
  ERR_clear_error();
  errno = 0;
  const Step step =
      broken_ ? Step{Step::Kind::kFailed, 0, asio::error::connection_aborted}
              : Judge(SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size())));
  const bool waits = Await(step, [this, buffer, done](const ErrorCode& error) {
    if (error) return done(error, 0);
    TryRead(buffer, done, false);
  });
  if (!waits) Deliver(socket_, in_call, std::move(done), step.error, step.size);
}

void TlsSession::Write(std::string bytes, Done done) {
  if (bytes.empty()) return Deliver(socket_, true, std::move(done), {}, 0);
  TryWrite(std::make_shared<std::string>(std::move(bytes)), std::move(done), true);
}

void TlsSession::TryWrite(const std::shared_ptr<std::string>& bytes, Done done, bool in_call) {
  ERR_clear_error();
  errno = 0;
  const Step step =
      broken_ ? Step{Step::Kind::kFailed, 0, asio::error::connection_aborted}
              : Judge(SSL_write(ssl_.get(), bytes->data(), static_cast<int>(bytes->size())));
  const bool waits = Await(step, [this, bytes, done](const ErrorCode& error) {
    if (error) return done(error, 0);
    TryWrite(bytes, done, false);
  });
  if (!waits) Deliver(socket_, in_call, std::move(done), step.error, step.size);
}

void TlsSession::ShutdownSend() {
  ErrorCode ignored;
  if (established_ && !broken_) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_shutdown(ssl_.get());
    // Not yet in the socket's queue: without it the client would take what it has for cut off.
    if (result < 0 && Judge(result).kind == Step::Kind::kWritable) {
      return socket_.async_wait(Stream::wait_write,
                                [weak = weak_from_this()](const ErrorCode& error) {
                                  const auto self = weak.lock();
                                  if (!error && self) self->ShutdownSend();
                                });
    }
  }
  socket_.shutdown(Stream::shutdown_send, ignored);
}

void TlsSession::SayGoodbye() {
  if (!established_ || broken_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  broken_ = true;
}

}  // namespace atl::http
