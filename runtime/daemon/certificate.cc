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
  LogLine(LogLevel::kWarning, "cannot check the certificate, because this user cannot read it")
      .Add(loaded.error());
  return {};
}

void WarnIfUnreadable(const Config& config) {
  for (const std::string& path : {config.tls_cert, config.tls_key}) {
    if (path.empty() || sys::Open(path, O_RDONLY)) continue;
    LogLine(LogLevel::kWarning,
            "the daemon's user cannot read a file of the certificate, so a reload would keep the "
            "old one; give that user's group read access (chgrp, chmod g+r), and execute access to "
            "the directories")
        .Add("file", path);
  }
}

}  // namespace atl::daemon
