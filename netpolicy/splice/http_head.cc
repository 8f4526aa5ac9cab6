#include "netpolicy/splice/http_head.h"

#include <utility>

#include "netpolicy/splice/host_name.h"
#include "runtime/http/ascii.h"

namespace atl::netpolicy {
namespace {

// Returns true if a listed protocol carries requests of its own, which the proxy could not judge.
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
  if (!host.empty()) {
    auto meant = ReadHostField(host);
    if (!meant) return "Host is not a host name";
    head.name = std::move(meant->name);
    head.address = std::move(meant->address);
    head.port = meant->port;
  }
  head.body = read->body;
  head.strip_upgrade = headers.Has("http2-settings");
  for (const http::Header& header : headers.list) {
    if (!http::EqualNoCase(header.name, "upgrade")) continue;
    head.upgrade = true;
    head.strip_upgrade = head.strip_upgrade || LeadsToOtherRequests(header.value);
  }
  head.upgrade = head.upgrade && !head.strip_upgrade;
  // The server might read the bytes as a body or as the other protocol.
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
