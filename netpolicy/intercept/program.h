// The interceptor of one sandbox: takes connections over from the daemon, ends TLS on them in the
// place of the server, puts credentials into the requests, and passes them on to the server, which
// has to prove who it is.
//
// Thread rule: one thread, the loop's.
#pragma once

#include <cstddef>
#include <memory>

#include "netpolicy/intercept/certificates.h"
#include "netpolicy/intercept/line.h"
#include "netpolicy/vault/document.h"
#include "netpolicy/vault/redact.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/tls.h"

namespace atl::intercept {

// Of all bodies that are held at once, because credentials are put into them.
inline constexpr size_t kMaxHeldBodies = 16 << 20;

// What all connections of the interceptor share.
struct Shared {
  http::PooledLoop& loop;
  Certificates& certificates;
  const std::shared_ptr<const http::TlsContext> trust;  // whom it believes to be a server
  std::shared_ptr<const vault::Vault> vault;            // that of now
  std::shared_ptr<const vault::Redactor> redactor;      // of it
  size_t held_bodies = 0;                               // bytes
};

// Serves the connection to its end, and then closes its lease.
void ServeFlow(Shared& shared, Serve flow);

// Reads Begin from `line`, answers it, and serves until the daemon is gone. `authorities`: a PEM
// file of those that servers are believed by. An error: it has not begun, and the daemon was told.
Status Run(UniqueFd line, const std::string& authorities);

}  // namespace atl::intercept
