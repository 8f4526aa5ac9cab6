// Server certificates of the interceptor, signed by the sandbox's own authority.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "netpolicy/intercept/authority.h"
#include "netpolicy/intercept/openssl.h"
#include "runtime/base/result.h"
#include "runtime/http/tls.h"

namespace atl::intercept {

class Certificates {
 public:
  static Result<std::unique_ptr<Certificates>> Create(const Authority& authority);
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  // Returns the TLS context that impersonates `name`. It is made in 0.1 ms and kept for a day. At
  // most kKept are kept, because a wildcard lets the sandbox ask for any number of names.
  Result<std::shared_ptr<const http::TlsContext>> For(const std::string& name);

  static constexpr size_t kKept = 256;

 private:
  struct Entry {
    std::shared_ptr<const http::TlsContext> context;
    int64_t until_us = 0;
  };
  Certificates(Certificate issuer, Key issuer_key, Key key)
      : issuer_(std::move(issuer)), issuer_key_(std::move(issuer_key)), key_(std::move(key)) {}
  Result<std::string> Sign(const std::string& name);

  const Certificate issuer_;
  const Key issuer_key_;
  const Key key_;  // shared by all certificates: whoever has it controls this process anyway
  std::map<std::string, Entry> made_;
};

}  // namespace atl::intercept
