// The certificate authority of one sandbox. Only that sandbox trusts it. With it the interceptor
// impersonates the servers that credentials are for.
//
// Thread rule: values and pure functions.
#pragma once

#include <string>

#include "runtime/base/result.h"

namespace atl::intercept {

// Certificate and key in PEM. The key is a secret of the host: whoever has it and controls the
// sandbox's network path can impersonate any server to that sandbox.
struct Authority {
  std::string certificate;
  std::string key;
  // The name by which OpenSSL finds the certificate in a directory (openssl-rehash(1)):
  // "0a1b2c3d.0".
  std::string link;

  bool operator==(const Authority&) const = default;
  bool empty() const { return certificate.empty(); }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.certificate, self.key, self.link);
  }
};

// Makes an authority: P-256, valid for thirty years, restricted to server certificates. Takes some
// 0.1 ms.
Result<Authority> MakeAuthority(const std::string& sandbox_id);

}  // namespace atl::intercept
