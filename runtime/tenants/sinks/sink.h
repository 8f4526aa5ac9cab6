// A place outside of this host's files that gets the lines of the audit log.
//
// Thread rule: each sink belongs to one thread, which may block.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::sinks {

// Lines without newlines, in the order of the log.
using Batch = std::vector<std::string>;

class Sink {
 public:
  virtual ~Sink() = default;
  // Hands the lines over. An error means that the receiver may have got none, some or all of them:
  // the caller sends the batch again.
  virtual Status Send(const Batch& batch) = 0;
};

// One line of audit.sinks:
//
//   journald
//   syslog://HOST:PORT      RFC 5424 over TLS (RFC 5425)
//   https://HOST/PATH       POST of lines of JSON, gzip
//   otlp+https://HOST/PATH  POST of OTLP logs as JSON
//
// followed by options: ca=/FILE, the authorities of the receiver's certificate, else the host's;
// key=/FILE, a key for the header Atoll-Signature of https; bearer=/FILE, a token for https and
// otlp. http:// is accepted for a literal loopback address only.
struct SinkSettings {
  enum class Kind { kJournald, kSyslog, kHttps, kOtlp };
  Kind kind = Kind::kJournald;
  std::string name;  // names the sink in metrics, the log and its cursor: "syslog-host-6514"
  std::string url;   // http:// or https://; of syslog https://HOST:PORT
  std::string ca;
  std::string key_file;
  std::string bearer_file;
};
Result<SinkSettings> ParseSink(const std::string& text);

// Reads the files that the settings name. Connects later.
Result<std::unique_ptr<Sink>> MakeSink(const SinkSettings& settings);

}  // namespace atl::sinks
