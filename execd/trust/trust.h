// Makes the image trust the sandbox's own certificate authority (wire::TrustedAuthority), by files
// and variables: programs look in many places. Upstream's names, which clients know.
//
// As root inside, in an image that may hold anything: nothing but regular files is read, and only
// so much of them; a file is replaced by a new one that is renamed over it, so that readers see all
// of it or nothing, and no link in its place is followed. No fsync: a sandbox dies with its host.
#pragma once

#include <functional>
#include <string_view>

#include "execd/core/environment.h"
#include "runtime/base/result.h"
#include "runtime/wire/start.h"

namespace atl::execd {

// The certificate by itself.
inline constexpr const char* kAuthorityFile = "/opt/opensandbox/mitmproxy-ca-cert.pem";
// It and those that the image trusts: for variables that name all there are.
inline constexpr const char* kMergedBundle = "/opt/opensandbox/merged-ca-certificates.pem";

// Writes these two, adds the certificate to the image's own stores, and sets in `env` what is not
// set yet of NODE_EXTRA_CA_CERTS, REQUESTS_CA_BUNDLE and SSL_CERT_FILE. A sandbox of a snapshot has
// its parent's certificate, which is replaced. An error: the two files cannot be written, and
// nothing may run as if they were. `complain` hears of a store that cannot be: not each can.
Status TrustAuthority(const wire::TrustedAuthority& authority, Environment* env,
                      const std::function<void(std::string_view)>& complain);

}  // namespace atl::execd
