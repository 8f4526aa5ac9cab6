// The interceptor of one sandbox. It takes connections over from the daemon, terminates TLS in
// place of the server, puts credentials into the requests, and passes them on to the server, whose
// certificate it verifies.
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

// Limit of all bodies that are held at the same time to put credentials into them.
inline constexpr size_t kMaxHeldBodies = 16 << 20;

// State that all connections of the interceptor share.
struct Shared {
  http::PooledLoop& loop;
  Certificates& certificates;
  const std::shared_ptr<const http::TlsContext> trust;  // verifies servers' certificates
  std::shared_ptr<const vault::Vault> vault;            // the current vault
  std::shared_ptr<const vault::Redactor> redactor;      // redacts the current vault's secrets
  size_t held_bodies = 0;                               // bytes
};

// Serves the connection to its end, and then closes its lease.
void ServeFlow(Shared& shared, Serve flow);

// Reads Begin from `line`, answers it, and serves until the daemon closes the line. If it fails, it
// has not started, and the daemon was told why.
Status Run(UniqueFd line);

}  // namespace atl::intercept
