#include "runtime/http/transport.h"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <cerrno>

namespace atl::http {
namespace {

// Of the record that a TLS client speaks first (RFC 8446 section 5.1); no method begins so.
constexpr char kHandshakeRecord = 22;

}  // namespace

void Transport::StartTls(std::shared_ptr<const TlsContext> context, bool may_be_plain,
                         std::function<void(const ErrorCode&)> done) {
  if (!may_be_plain) {
    tls_ = std::make_shared<TlsSession>(socket_, std::move(context));
    return Handshake(std::move(done));
  }
  socket_.async_wait(Stream::wait_read, [this, context = std::move(context),
                                         done = std::move(done)](const ErrorCode& error) mutable {
    if (error) return done(error);
    char first = 0;
    const ssize_t n = recv(socket_.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 1 && first == kHandshakeRecord) {
      return StartTls(std::move(context), false, std::move(done));
    }
    // What else there is to see, an end or an error, the first read sees again.
    done({});
  });
}

void Transport::Handshake(std::function<void(const ErrorCode&)> done) {
  tls_->Handshake([this, done = std::move(done)](const ErrorCode& error) {
    if (error == asio::error::no_protocol_option) tls_.reset();
    done(error);
  });
}

void Transport::ShutdownSend() {
  if (tls_) return tls_->ShutdownSend();
  ErrorCode ignored;
  socket_.shutdown(Stream::shutdown_send, ignored);
}

void Transport::Close(bool properly) {
  if (tls_ && properly) tls_->SayGoodbye();
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace atl::http
