// One end of a TLS connection, over a socket that does not block. Internal to this
// folder.
//
// OpenSSL reads and writes the socket itself: no copy through buffers of ours, and an idle
// connection costs it some 2 KiB.
//
// Every call does what can be done at once. The socket is borrowed and outlives the session's
// calls. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/http/tls.h"

struct ssl_st;

namespace atl::http {

// One try to read or write: all that can come of it.
struct IoStep {
  enum class Kind { kDone, kReadable, kWritable, kFailed };  // the middle two: to wait for
  Kind kind = Kind::kDone;
  size_t size = 0;
  int error = 0;  // as Stream's, of kFailed
};

class TlsSession {
 public:
  // `context` is held: a later one may serve new connections. `server`: empty, and this is the
  // server's end; else the client's, and the name of the server that has to prove it is that.
  TlsSession(int socket, std::shared_ptr<const TlsContext> context, const std::string& server = {});
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // ENOPROTOOPT if the client speaks HTTP without TLS.
  IoStep Handshake();
  // An end without TLS's own close_notify is ECONNRESET: anybody on the way could have made it.
  IoStep Read(char* data, size_t size);
  // At most one record's worth, not nothing. After a wait, the same bytes again.
  IoStep Write(std::string_view bytes);
  // Tells the peer that no more is coming, after everything written.
  IoStep Shutdown();
  // Tells it if that is possible at once: before the socket is closed.
  void SayGoodbye();
  // Why the server's certificate is not believed; null: that was not it.
  const char* disbelief() const;

 private:
  struct SslFreer {
    void operator()(ssl_st* ssl) const;
  };
  IoStep Judge(int result);

  const std::shared_ptr<const TlsContext> context_;
  const std::unique_ptr<ssl_st, SslFreer> ssl_;
  bool established_ = false;
  bool broken_ = false;  // nothing may be said on it any more (SSL_get_error(3))
};

}  // namespace atl::http
