// The server's side of one TLS connection, over a non-blocking socket of the loop. Internal to this
// folder.
//
// OpenSSL reads and writes the socket itself: no copy through buffers of ours, and an idle
// connection costs it some 2 KiB. Asio's own ssl::stream was the alternative: it never passes on
// a half-close, and holds 34 KiB.
//
// At most one read and one write are under way. The socket outlives the session; callbacks hold
// whoever owns both. Thread rule: the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/http/asio.h"
#include "runtime/http/tls.h"

struct ssl_st;

namespace atl::http {

class TlsSession : public std::enable_shared_from_this<TlsSession> {
 public:
  using Done = std::function<void(const ErrorCode&, size_t)>;

  // `context` is held: a later one may serve new connections.
  TlsSession(Stream& socket, std::shared_ptr<const TlsContext> context);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // Calls back with no_protocol_option if the client speaks HTTP without TLS.
  void Handshake(std::function<void(const ErrorCode&)> done);
  // As a stream's async_read_some and async_write_some. An end without TLS's own close_notify is
  // connection_reset: anybody on the way could have made it.
  void Read(asio::mutable_buffer buffer, Done done);
  void Write(std::string bytes, Done done);  // `bytes`: at most one record's worth
  // Tells the client that no more is coming, after everything written, and closes this direction of
  // the socket.
  void ShutdownSend();
  // Tells it if that is possible at once: before the socket is closed.
  void SayGoodbye();

 private:
  struct SslFreer {
    void operator()(ssl_st* ssl) const;
  };
  // One call of OpenSSL: all that can come of it.
  struct Step {
    enum class Kind { kDone, kReadable, kWritable, kFailed };  // the middle two: to wait for
    Kind kind;
    size_t size = 0;
    ErrorCode error;
  };
  Step Judge(int result);
  // Waits as `step` says, then calls `again`; false if there is nothing to wait for.
  bool Await(const Step& step, std::function<void(const ErrorCode&)> again);

  void TryRead(asio::mutable_buffer buffer, Done done, bool in_call);
  void TryWrite(const std::shared_ptr<std::string>& bytes, Done done, bool in_call);

  Stream& socket_;
  const std::shared_ptr<const TlsContext> context_;
  const std::unique_ptr<ssl_st, SslFreer> ssl_;
  bool established_ = false;
  bool broken_ = false;  // nothing may be said on it any more (SSL_get_error(3))
};

}  // namespace atl::http
