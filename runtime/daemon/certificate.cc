#include "runtime/daemon/certificate.h"

#include <fcntl.h>

#include <cerrno>

#include "runtime/base/log.h"
#include "runtime/base/sys.h"

namespace atl::daemon {

Result<std::shared_ptr<const http::TlsContext>> LoadCertificate(const Config& config) {
  if (config.tls_cert.empty()) return std::shared_ptr<const http::TlsContext>();
  auto context = http::TlsContext::ForServer(config.tls_cert, config.tls_key);
  if (!context) return Fail(std::move(context).error().Wrap("server.tls_cert and server.tls_key"));
  if (!(*context)->warning().empty()) LogLine(LogLevel::kWarning, (*context)->warning());
  return context;
}

Status CheckCertificate(const Config& config) {
  auto loaded = LoadCertificate(config);
  if (loaded) return {};
  if (loaded.error().error_number() != EACCES) return Fail(std::move(loaded).error());
  LogLine(LogLevel::kWarning, "the certificate is not checked: this user cannot read it")
      .Add(loaded.error());
  return {};
}

void WarnIfUnreadable(const Config& config) {
  for (const std::string& path : {config.tls_cert, config.tls_key}) {
    if (path.empty() || sys::Open(path, O_RDONLY)) continue;
    LogLine(
        LogLevel::kWarning,
        "the daemon's user cannot read a file of the certificate: a reload will not take a new "
        "one (chgrp it to that user's group, chmod g+r, and let the group pass the directories)")
        .Add("file", path);
  }
}

}  // namespace atl::daemon
