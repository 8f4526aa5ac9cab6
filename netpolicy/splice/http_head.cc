#include "netpolicy/splice/http_head.h"

#include <charconv>

#include "netpolicy/splice/host_name.h"
#include "runtime/http/ascii.h"

namespace atl::netpolicy {
namespace {

// False if `host`, which is not empty, names no server.
bool ReadHost(std::string_view host, HttpHead& head) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const char* end = host.data() + host.size();
    const auto [parsed, error] = std::from_chars(host.data() + colon + 1, end, head.port);
    // An empty port is allowed by RFC 3986, and nobody sends it.
    if (error != std::errc() || parsed != end || head.port == 0) return false;
    host = host.substr(0, colon);
  }
  if (auto address = HostAddressBytes(host)) {
    head.address = std::move(*address);
  } else if (auto name = NormalHostName(host)) {
    head.name = std::move(*name);
  } else {
    return false;
  }
  return true;
}

// Protocols that carry requests of their own, which nobody would judge.
bool LeadsToOtherRequests(std::string_view protocols) {
  bool leads = false;
  http::ForEachElement(protocols, [&](std::string_view one) {
    const std::string_view name = one.substr(0, one.find('/'));
    for (const std::string_view refused : {"h2c", "h2", "HTTP", "TLS"}) {
      leads = leads || http::EqualNoCase(name, refused);
    }
  });
  return leads;
}

bool OffersProtocol(std::string_view name) {
  return http::EqualNoCase(name, "upgrade") || http::EqualNoCase(name, "http2-settings");
}

}  // namespace

const char* ReadHttpHead(std::string_view text, HttpHead& head) {
  head = {};
  const auto read = http::ParseRequestHead(text);
  if (!read) return read.error().message;
  const http::Headers& headers = read->request.headers;
  const std::string_view host = headers.Get("host");
  if (!host.empty() && !ReadHost(host, head)) return "Host is not a host name";
  head.body = read->body;
  head.strip_upgrade = headers.Has("http2-settings");
  for (const http::Header& header : headers.list) {
    if (!http::EqualNoCase(header.name, "upgrade")) continue;
    head.upgrade = true;
    head.strip_upgrade = head.strip_upgrade || LeadsToOtherRequests(header.value);
  }
  head.upgrade = head.upgrade && !head.strip_upgrade;
  // Nobody could tell whether the server reads it as a body or as the other protocol.
  if (head.upgrade && head.body.kind != http::Framing::Kind::kNone) return "upgrade with a body";
  return nullptr;
}

std::string WithoutUpgrade(std::string_view text) {
  constexpr std::string_view kLineEnd = "\r\n";
  std::string left;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find(kLineEnd) + kLineEnd.size());
    if (!OffersProtocol(line.substr(0, line.find(':')))) left.append(line);
    text.remove_prefix(line.size());
  }
  return left;
}

}  // namespace atl::netpolicy
