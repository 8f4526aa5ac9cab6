// Loads the certificate that the configuration names.
#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/http/tls.h"

namespace atl::daemon {

// Returns null if none is configured. Warnings about a usable certificate are logged.
Result<std::shared_ptr<const http::TlsContext>> LoadCertificate(const Config& config);

// The check of --check-config. Its user may not be able to read the key; then it only warns.
Status CheckCertificate(const Config& config);

// Call after privileges are dropped: warns if a reload could not read the files again. Otherwise
// that would go unnoticed until the certificate expires.
void WarnIfUnreadable(const Config& config);

}  // namespace atl::daemon
