#include "runtime/daemon/config_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cgroup/limits_text.h"
#include "netpolicy/address/endpoint.h"
#include "netpolicy/address/ports.h"
#include "netpolicy/policy/guards.h"
#include "netpolicy/policy/policy.h"
#include "runtime/http/base_url.h"
#include "runtime/sandbox/create/isolation.h"
#include "runtime/wire/object_store.h"
#include "runtime/wire/volume.h"

namespace atl::daemon {
namespace {

bool AllOf(const std::string& text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [more](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           more.find(c) != std::string_view::npos;
  });
}

}  // namespace

Error BadValue(const std::string& value, const std::string& allowed) {
  return Error(Code::kInvalidArgument, "'" + value + "': " + allowed);
}

Result<uint64_t> ParseNumber(const std::string& text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < min || value > max) {
    return Fail(BadValue(
        text, "use a whole number from " + std::to_string(min) + " to " + std::to_string(max)));
  }
  return value;
}

Result<std::string> CheckAbsolutePath(const std::string& text) {
  if (!text.starts_with('/') || text.find("/../") != std::string::npos || text.ends_with("/..") ||
      text.find('\0') != std::string::npos) {
    return Fail(BadValue(text, "use an absolute path without '..'"));
  }
  std::string path = text;
  while (path.ends_with('/')) path.pop_back();
  if (path.empty()) return Fail(BadValue(text, "use an absolute path below the root directory"));
  return path;
}

Result<std::string> CheckOptionalPath(const std::string& text) {
  if (text.empty()) return text;
  return CheckAbsolutePath(text);
}

Result<std::string> CheckObjectStore(const std::string& text) {
  if (const auto store = wire::ParseObjectStore(text); !store) {
    return Fail(BadValue(text, store.error().message()));
  }
  return text;
}

Result<std::string> CheckDeviceKind(const std::string& text) {
  const size_t slash = text.find('/');
  if (text.empty()) return text;
  if (slash == 0 || slash == std::string::npos || slash + 1 == text.size() || text.size() > 128 ||
      !AllOf(text.substr(0, slash), ".-_") || !AllOf(text.substr(slash + 1), "-_")) {
    return Fail(BadValue(text, "use VENDOR/CLASS, such as nvidia.com/gpu"));
  }
  return text;
}

Result<std::string> CheckIsolation(const std::string& text) {
  if (text.empty()) return text;
  return sandbox::ParseIsolation(text);
}

Result<std::string> CheckHostPath(const std::string& text) {
  ATOLL_ASSIGN(std::string path, CheckAbsolutePath(text));
  if (!wire::PlainAbsolutePath(path)) {
    return Fail(BadValue(text, "use an absolute path without '.', '..' and '//'"));
  }
  return path;
}

Result<uint64_t> ParseSize(const std::string& text, uint64_t min, uint64_t max) {
  const auto bytes = cgroup::ParseBytes(text);
  if (!bytes || *bytes < min || *bytes > max) {
    return Fail(BadValue(text,
                         "use a number of bytes with an optional unit (k, m, g, t, Ki, Mi, Gi, "
                         "Ti), from " +
                             cgroup::BytesText(min) + " to " + cgroup::BytesText(max)));
  }
  return *bytes;
}

Result<std::string> CheckHost(const std::string& text) {
  in6_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
      ::inet_pton(AF_INET6, text.c_str(), &address) == 1) {
    return text;
  }
  return Fail(BadValue(text, "use an IPv4 or IPv6 address, such as 127.0.0.1 or 0.0.0.0"));
}

Result<std::string> CheckListen(const std::string& text) {
  if (text.empty()) return text;
  const auto [host, port] = PartsOfListen(text);
  const bool v6 = host.find(':') != std::string::npos;
  if (port == 0 || !CheckHost(host) || v6 != text.starts_with('[')) {
    return Fail(BadValue(text, "use ADDRESS:PORT, such as 127.0.0.1:9464 or [::1]:9464"));
  }
  return text;
}

std::pair<std::string, uint16_t> PartsOfListen(const std::string& text) {
  const size_t colon = std::min(text.rfind(':'), text.size());
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto port = ParseNumber(text.substr(std::min(colon + 1, text.size())), 1, 65535);
  return {std::move(host), port ? static_cast<uint16_t>(*port) : uint16_t{0}};
}

Result<std::string> CheckApiKey(const std::string& text) {
  for (char c : text) {
    if (c <= ' ' || c > '~') {
      return Fail(Code::kInvalidArgument, "use only visible ASCII characters for an API key");
    }
  }
  if (!text.empty() && text.size() < 8) {
    return Fail(Code::kInvalidArgument, "use at least 8 characters for an API key");
  }
  return text;
}

Result<std::string> CheckTarget(const std::string& text) {
  if (auto target = netpolicy::ParsePolicyTarget(text); !target) {
    return Fail(std::move(target).error());
  }
  return text;
}

Result<std::string> CheckPrefix(const std::string& text) {
  if (auto prefixes = netpolicy::ParsePrefixes({text}); !prefixes) {
    return Fail(std::move(prefixes).error());
  }
  return text;
}

Result<std::string> CheckOptionalUrl(const std::string& text) {
  if (text.empty()) return text;
  ATOLL_TRY(http::ParseBaseUrl(text));
  return text;
}

Result<std::string> CheckServiceName(const std::string& text) {
  const bool visible =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!visible || text.empty() || text.size() > 255) {
    return Fail(BadValue(text, "use 1 to 255 visible ASCII characters"));
  }
  return text;
}

Result<std::string> CheckPublicHost(const std::string& text) {
  std::string host = text;
  for (const char* scheme : {"http://", "https://"}) {
    if (host.starts_with(scheme)) host.erase(0, std::string_view(scheme).size());
  }
  if (host.ends_with('/')) host.pop_back();
  if (!AllOf(host, ".:-[]") || host.size() > 255) {
    return Fail(
        BadValue(text, "use a host name or address, with a port if it is not the listener's"));
  }
  return host;
}

Result<std::string> CheckBasePath(const std::string& text) {
  std::string path = text;
  if (path.ends_with('/')) path.pop_back();
  const bool sound =
      path.empty() || (path.starts_with('/') && !path.ends_with('/') && AllOf(path, "-._~/") &&
                       path.size() <= 255 && path.find("//") == std::string::npos &&
                       path.find("/.") == std::string::npos);
  if (!sound) return Fail(BadValue(text, "use a path such as /atoll, of letters, digits and -._~"));
  return path;
}

Result<std::string> CheckUser(const std::string& text) {
  if (text.empty()) return Fail(BadValue(text, "name a user of this host"));
  return text;
}

Result<std::string> CheckResolver(const std::string& text) {
  ATOLL_TRY(netpolicy::ParseEndpoint(text, netpolicy::kDnsPort));
  return text;
}

Result<std::string> CheckGatewayAddress(const std::string& text) {
  std::string_view host = text;
  if (host.starts_with("*.")) host.remove_prefix(2);
  const bool given = !host.empty() || text.empty();
  if (!given || !AllOf(std::string(host), ".:-[]") || host.starts_with('.') || host.size() > 200) {
    return Fail(BadValue(text,
                         "use a host name or address with an optional port, without a scheme; "
                         "\"*.\" before it for the route mode wildcard"));
  }
  return text;
}

Result<std::string> CheckRouteMode(const std::string& text) {
  if (text.empty() || text == "wildcard" || text == "uri" || text == "header") return text;
  return Fail(BadValue(text, "use wildcard, uri or header"));
}

}  // namespace atl::daemon
