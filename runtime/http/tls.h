// Certificates: the server's own, and the authorities that a client trusts.
//
// TLS 1.2 and 1.3, HTTP/1.1 by ALPN, no renegotiation, no compression. Sessions are resumed by
// tickets, whose key lives as long as the context.
//
// Thread rule: made on any thread, then read-only.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"

struct ssl_ctx_st;

namespace atl::http {

class TlsContext {
 public:
  // Makes a server's context from PEM files: the certificate followed by its chain, and its private
  // key without a passphrase. Errors name the file and say what to do. kPermissionDenied: it cannot
  // be read. kFailedPrecondition: every user of the host can read the key. kInvalidArgument: the
  // two do not match.
  static Result<std::shared_ptr<const TlsContext>> ForServer(const std::string& certificate,
                                                             const std::string& key);
  // Like ForServer, from PEM texts. `name` stands for them in errors.
  static Result<std::shared_ptr<const TlsContext>> ForServerText(const std::string& certificate,
                                                                 const std::string& key,
                                                                 const std::string& name);
  // Makes a client's context that trusts the authorities of the PEM file `authorities`, or the
  // host's if it is empty.
  static Result<std::shared_ptr<const TlsContext>> ForClient(const std::string& authorities);

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  // A warning about a usable certificate, such as that it has expired. Empty if there is none.
  const std::string& warning() const { return warning_; }
  // When a server's certificate expires, in seconds since the Unix epoch. 0: there is no
  // certificate.
  int64_t not_after() const;
  // Used only in this folder.
  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  // Makes a context without a certificate.
  static Result<std::shared_ptr<TlsContext>> NewServer();

  ssl_ctx_st* const context_;
  std::string warning_;
};

}  // namespace atl::http
