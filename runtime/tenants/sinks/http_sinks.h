// Sinks that are posted to: lines of JSON, and OTLP logs.
//
// Each request has Atoll-Batch, "BOOT-SEQ" of its first line: receivers that have seen it drop the
// batch. Atoll-Signature is "t=UNIX_SECONDS,v1=HEX", an HMAC-SHA256 of "UNIX_SECONDS." and the body
// as sent.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/tls.h"
#include "runtime/tenants/sinks/sink.h"

namespace atl::sinks {

struct HttpOptions {
  std::string url;
  std::shared_ptr<const http::TlsContext> trust = nullptr;
  std::string key = {};     // signs; empty: no signature
  std::string bearer = {};  // token of the Authorization header; empty: none
};

Result<std::unique_ptr<Sink>> MakeHttps(HttpOptions options);
Result<std::unique_ptr<Sink>> MakeOtlp(HttpOptions options);

// Returns an ExportLogsServiceRequest in OTLP's JSON.
std::string OtlpLogs(const Batch& batch);

}  // namespace atl::sinks
