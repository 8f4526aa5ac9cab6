// Certificates: the server's own, and whom the client trusts.
//
// TLS 1.2 and 1.3, HTTP/1.1 by ALPN, no renegotiation, no compression; sessions are resumed by
// tickets whose key lives as long as the context.
//
// Thread rule: made anywhere, then read only.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"

struct ssl_ctx_st;

namespace atl::http {

class TlsContext {
 public:
  // Of a server, from PEM files: the certificate with the chain behind it, and its private key
  // without a passphrase. Errors say which file, and what to do: kPermissionDenied if it cannot be
  // read, kFailedPrecondition if the key is open to every user of the host, kInvalidArgument if the
  // two are no pair.
  static Result<std::shared_ptr<const TlsContext>> ForServer(const std::string& certificate,
                                                             const std::string& key);
  // The same from the PEM texts themselves; `name` stands for them in errors.
  static Result<std::shared_ptr<const TlsContext>> ForServerText(const std::string& certificate,
                                                                 const std::string& key,
                                                                 const std::string& name);
  // Of a client that believes the authorities of the PEM file `authorities`, or the host's if it is
  // empty.
  static Result<std::shared_ptr<const TlsContext>> ForClient(const std::string& authorities);

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  // What is to be said about a certificate that can be served: that it has expired, for instance.
  // Empty: nothing.
  const std::string& warning() const { return warning_; }
  // When the certificate of a server expires, in seconds since the Unix epoch; 0: it has none.
  int64_t not_after() const;
  // For this folder.
  ssl_ctx_st* get() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  // Without a certificate yet.
  static Result<std::shared_ptr<TlsContext>> NewServer();

  ssl_ctx_st* const context_;
  std::string warning_;
};

}  // namespace atl::http
