// Sends lines as RFC 5424 messages over TLS, in the framing of RFC 5425. The protocol has no
// acknowledgement. The batch before a lost connection is sent again on the next one.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/tls.h"
#include "runtime/tenants/sinks/sink.h"

namespace atl::sinks {

// `url`: https://HOST:PORT.
Result<std::unique_ptr<Sink>> MakeSyslog(const std::string& url,
                                         std::shared_ptr<const http::TlsContext> trust);

// Returns the framed message of a line.
std::string SyslogMessage(const std::string& line, const std::string& host);

}  // namespace atl::sinks
