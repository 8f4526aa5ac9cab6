#include "runtime/tenants/sinks/sink.h"

#include <fcntl.h>

#include <algorithm>
#include <sstream>

#include "runtime/base/sys.h"
#include "runtime/http/base_url.h"
#include "runtime/http/tls.h"
#include "runtime/tenants/sinks/http_sinks.h"
#include "runtime/tenants/sinks/journald.h"
#include "runtime/tenants/sinks/syslog.h"

namespace atl::sinks {
namespace {

constexpr size_t kMaxSecret = 4096;

std::string NameOf(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!plain) c = '-';
  }
  constexpr size_t kMost = 80;
  return text.substr(0, kMost);
}

Result<std::string> ReadSecret(const std::string& path) {
  if (path.empty()) return std::string();
  ATOLL_ASSIGN(std::string secret, sys::ReadFileAt(AT_FDCWD, path, kMaxSecret));
  while (secret.ends_with('\n') || secret.ends_with(' ')) secret.pop_back();
  if (secret.empty()) return Fail(Code::kInvalidArgument, path + " is empty");
  return secret;
}

bool IsLoopbackHost(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

}  // namespace

Result<SinkSettings> ParseSink(const std::string& text) {
  const auto wrong = [&text](const std::string& why) {
    return Fail(Code::kInvalidArgument, "'" + text.substr(0, 200) + "': " + why);
  };
  std::istringstream words(text);
  std::string place;
  words >> place;
  SinkSettings settings;
  const size_t colon = place.find("://");
  const std::string scheme = place.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : place.substr(colon + 3);
  if (place == "journald") {
    settings.kind = SinkSettings::Kind::kJournald;
  } else if (scheme == "syslog") {
    settings.kind = SinkSettings::Kind::kSyslog;
    settings.url = "https://" + rest;
  } else if (scheme == "https" || scheme == "http") {
    settings.kind = SinkSettings::Kind::kHttps;
    settings.url = place;
  } else if (scheme == "otlp+https" || scheme == "otlp+http") {
    settings.kind = SinkSettings::Kind::kOtlp;
    settings.url = place.substr(std::string("otlp+").size());
  } else {
    return wrong("use journald, syslog://HOST:PORT, https://… or otlp+https://…");
  }
  if (!settings.url.empty()) {
    const auto url = http::ParseBaseUrl(settings.url);
    if (!url) return wrong(url.error().message());
    if (!url->tls && !IsLoopbackHost(url->host)) {
      return wrong("without TLS a sink must be on this host");
    }
  }
  settings.name = NameOf(place);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const std::string path = equals == std::string::npos ? "" : word.substr(equals + 1);
    std::string* const member = option == "ca"       ? &settings.ca
                                : option == "key"    ? &settings.key_file
                                : option == "bearer" ? &settings.bearer_file
                                                     : nullptr;
    if (member == nullptr || !path.starts_with('/')) {
      return wrong("'" + word.substr(0, 40) + "': use ca=/FILE, key=/FILE or bearer=/FILE");
    }
    *member = path;
  }
  return settings;
}

Result<std::unique_ptr<Sink>> MakeSink(const SinkSettings& settings) {
  if (settings.kind == SinkSettings::Kind::kJournald) return MakeJournald();
  std::shared_ptr<const http::TlsContext> trust;
  if (settings.url.starts_with("https://")) {
    ATOLL_ASSIGN(trust, http::TlsContext::ForClient(settings.ca));
  }
  if (settings.kind == SinkSettings::Kind::kSyslog) return MakeSyslog(settings.url, trust);
  HttpOptions options{.url = settings.url, .trust = trust};
  ATOLL_ASSIGN(options.key, ReadSecret(settings.key_file));
  ATOLL_ASSIGN(options.bearer, ReadSecret(settings.bearer_file));
  return settings.kind == SinkSettings::Kind::kHttps ? MakeHttps(std::move(options))
                                                     : MakeOtlp(std::move(options));
}

}  // namespace atl::sinks
