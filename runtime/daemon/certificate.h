// The certificate that the configuration names.
#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/http/tls.h"

namespace atl::daemon {

// Null if there is none. What is wrong with one that can be served goes to the log.
Result<std::shared_ptr<const http::TlsContext>> LoadCertificate(const Config& config);

// For --check-config, whose user need not be able to read the key: then it warns.
Status CheckCertificate(const Config& config);

// Once privileges are dropped: a reload that cannot read the files again would go unnoticed until
// the certificate expires.
void WarnIfUnreadable(const Config& config);

}  // namespace atl::daemon
