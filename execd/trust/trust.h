// Makes the image trust the sandbox's own certificate authority (wire::TrustedAuthority). Programs
// look for certificates in many places, so this writes files and sets variables. The paths are
// upstream's, which clients know.
//
// execd does this as the sandbox's root, in an image with hostile contents. So it reads regular
// files only, up to a limit. It writes a new file and renames it over the old one, so that readers
// see either file complete, and no symbolic link in its place is followed. It does not call fsync,
// because a sandbox does not survive its host.
#pragma once

#include <functional>
#include <string_view>

#include "execd/core/environment.h"
#include "runtime/base/result.h"
#include "runtime/wire/start.h"

namespace atl::execd {

// The certificate alone.
inline constexpr const char* kAuthorityFile = "/opt/opensandbox/mitmproxy-ca-cert.pem";
// The certificate together with those that the image trusts, for variables that replace the default
// bundle.
inline constexpr const char* kMergedBundle = "/opt/opensandbox/merged-ca-certificates.pem";

// Writes both files, adds the certificate to the image's own stores, and sets NODE_EXTRA_CA_CERTS,
// REQUESTS_CA_BUNDLE and SSL_CERT_FILE in `env` unless they are set. Replaces the parent's
// certificate in a sandbox made from a snapshot. Returns an error if the two files cannot be
// written; then nothing may run in the sandbox. Calls `complain` for each other store that cannot
// be written, because some stores are read-only.
Status TrustAuthority(const wire::TrustedAuthority& authority, Environment* env,
                      const std::function<void(std::string_view)>& complain);

}  // namespace atl::execd
