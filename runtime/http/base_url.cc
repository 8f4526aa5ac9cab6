#include "runtime/http/base_url.h"

#include <algorithm>
#include <charconv>

#include "runtime/http/ascii.h"
#include "runtime/http/head.h"

namespace atl::http {
namespace {

tl::unexpected<Error> BadUrl(const std::string& url, const std::string& why) {
  return Fail(Code::kInvalidArgument, "server URL \"" + url + "\": " + why);
}

bool ParsePort(std::string_view text, uint16_t* port) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsDigit)) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size() && *port != 0;
}

}  // namespace

Result<BaseUrl> ParseBaseUrl(const std::string& url) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  constexpr std::string_view kUnix = "unix:";
  if (url.starts_with(kUnix)) {
    BaseUrl local;
    local.socket_path = url.substr(kUnix.size());
    if (!local.socket_path.starts_with('/')) return BadUrl(url, "the path must be absolute");
    local.host = local.authority = "localhost";
    return local;
  }
  const bool tls = EqualNoCase(std::string_view(url).substr(0, kTls.size()), kTls);
  if (!tls && !EqualNoCase(std::string_view(url).substr(0, kPlain.size()), kPlain)) {
    return BadUrl(url, "must start with http:// or https://");
  }
  std::string_view rest = std::string_view(url).substr(tls ? kTls.size() : kPlain.size());
  const std::string_view authority = rest.substr(0, rest.find('/'));
  rest.remove_prefix(authority.size());
  while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  if (!rest.empty() && (!ValidTarget(rest) || rest.find('?') != std::string_view::npos)) {
    return BadUrl(url, "the path is not valid");
  }
  if (!ValidField("host", authority) || authority.find('@') != std::string_view::npos) {
    return BadUrl(url, "must name a host without a user");
  }

  BaseUrl out;
  out.tls = tls;
  if (tls) out.port = 443;
  out.authority = authority;
  out.prefix = rest;
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return BadUrl(url, "']' is missing");
    out.host = authority.substr(1, bracket - 1);
    port = authority.substr(bracket + 1);
  } else {
    out.host = authority.substr(0, authority.find(':'));
    port = authority.substr(out.host.size());
  }
  if (out.host.empty()) return BadUrl(url, "the host is missing");
  if (!port.empty() && (port.front() != ':' || !ParsePort(port.substr(1), &out.port))) {
    return BadUrl(url, "the port must be a number from 1 to 65535");
  }
  return out;
}

}  // namespace atl::http
