// One end of a TLS connection over a nonblocking socket. Internal to this folder.
//
// OpenSSL reads and writes the socket itself, so no bytes are copied through our own buffers, and
// an idle connection costs it some 2 KiB. Every call does what is possible at once. The socket is
// borrowed and must outlive the session's calls.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/http/tls.h"

struct ssl_st;

namespace atl::http {

// The result of one attempt to read or write.
struct IoStep {
  // kReadable, kWritable: wait for that event and try again
  enum class Kind { kDone, kReadable, kWritable, kFailed };
  Kind kind = Kind::kDone;
  size_t size = 0;
  int error = 0;  // error of kFailed, in the form of Stream::Done
};

class TlsSession {
 public:
  // `context` is held, because later connections may use another one. `server`: empty for the
  // server's end; for a client, the name that the server must prove.
  TlsSession(int socket, std::shared_ptr<const TlsContext> context, const std::string& server = {});
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  // ENOPROTOOPT: the client speaks HTTP without TLS.
  IoStep Handshake();
  // An end without close_notify is ECONNRESET, because anybody on the path could have caused it.
  IoStep Read(char* data, size_t size);
  // Writes at most one record, and at least one byte. After a wait, call again with the same bytes.
  IoStep Write(std::string_view bytes);
  // Sends close_notify after everything written.
  IoStep Shutdown();
  // Sends close_notify if that is possible at once. Call before the socket is closed.
  void TryShutdown();
  // Why the server's certificate was not accepted. Null: it was.
  const char* verify_error() const;

 private:
  struct SslFreer {
    void operator()(ssl_st* ssl) const;
  };
  IoStep Judge(int result);

  const std::shared_ptr<const TlsContext> context_;
  const std::unique_ptr<ssl_st, SslFreer> ssl_;
  bool established_ = false;
  bool broken_ = false;  // the session must not be used any more (SSL_get_error(3))
};

}  // namespace atl::http
