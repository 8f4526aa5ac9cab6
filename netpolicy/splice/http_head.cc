#include "netpolicy/splice/http_head.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "netpolicy/splice/host_name.h"

namespace atl::netpolicy {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool IsTokenByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenByte);
}

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

template <typename Number>
bool ParseNumber(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  return !text.empty() && error == std::errc() && parsed == end;
}

// A server as a Host field or a URL names it.
struct Authority {
  std::string name;
  std::string address;
  uint16_t port = 0;

  bool Agrees(const Authority& other) const {
    return name == other.name && address == other.address &&
           (port == 0 ? 80 : port) == (other.port == 0 ? 80 : other.port);
  }
};

std::optional<Authority> ReadAuthority(std::string_view text) {
  Authority authority;
  const size_t bracket = text.rfind(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::string_view port = text.substr(colon + 1);
    // An empty port is allowed by RFC 3986, and nobody sends it.
    if (!ParseNumber(port, authority.port) || authority.port == 0) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (auto address = HostAddressBytes(text)) {
    authority.address = std::move(*address);
  } else if (auto name = NormalHostName(text)) {
    authority.name = std::move(*name);
  } else {
    return std::nullopt;
  }
  return authority;
}

// What the lines of a head have said so far.
struct Fields {
  std::optional<Authority> target;
  std::optional<Authority> host;
  bool has_host = false;
  std::optional<uint64_t> length;
  bool chunked = false;
  bool upgrade = false;
  bool strip_upgrade = false;
  bool http10 = false;
};

const char* ReadTarget(std::string_view method, std::string_view target, Fields& fields) {
  const auto bad = [](char c) { return IsControl(c) || c == ' '; };
  if (target.empty() || std::any_of(target.begin(), target.end(), bad)) {
    return "malformed HTTP request line";
  }
  if (target.front() == '/') return nullptr;
  if (target == "*") return method == "OPTIONS" ? nullptr : "malformed HTTP request line";
  constexpr std::string_view kScheme = "http://";
  if (!EqualIgnoringCase(target.substr(0, kScheme.size()), kScheme)) {
    return "HTTP request target is neither a path nor an http URL";
  }
  target.remove_prefix(kScheme.size());
  fields.target = ReadAuthority(target.substr(0, target.find_first_of("/?#\\")));
  return fields.target ? nullptr : "HTTP request target names no valid host";
}

const char* ReadRequestLine(std::string_view line, Fields& fields) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return "malformed HTTP request line";
  const std::string_view method = line.substr(0, first);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method)) return "malformed HTTP request line";
  if (method == "CONNECT") return "HTTP CONNECT";
  // The preface of HTTP/2, whose requests we do not read.
  if (method == "PRI") return "HTTP/2 without TLS";
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return "HTTP version is not 1.0 or 1.1";
  fields.http10 = version == "HTTP/1.0";
  return ReadTarget(method, line.substr(first + 1, last - first - 1), fields);
}

// Protocols that carry requests of their own, which nobody would judge.
bool LeadsToOtherRequests(std::string_view protocols) {
  while (!protocols.empty()) {
    const size_t comma = std::min(protocols.find(','), protocols.size());
    const std::string_view one = Trim(protocols.substr(0, comma));
    const std::string_view name = one.substr(0, one.find('/'));
    for (const std::string_view refused : {"h2c", "h2", "HTTP", "TLS"}) {
      if (EqualIgnoringCase(name, refused)) return true;
    }
    protocols.remove_prefix(std::min(comma + 1, protocols.size()));
  }
  return false;
}

const char* ReadLength(std::string_view value, Fields& fields) {
  uint64_t length = 0;
  if (fields.length) return "HTTP Content-Length comes twice";
  if (!ParseNumber(value, length)) return "malformed HTTP Content-Length";
  fields.length = length;
  return nullptr;
}

const char* ReadField(std::string_view line, Fields& fields) {
  std::string_view name, value;
  if (const char* wrong = ReadHttpField(line, name, value)) return wrong;
  if (EqualIgnoringCase(name, "host")) {
    if (fields.has_host) return "HTTP Host comes twice";
    fields.has_host = true;
    if (value.empty()) return nullptr;
    fields.host = ReadAuthority(value);
    return fields.host ? nullptr : "HTTP Host is not a host name";
  }
  if (EqualIgnoringCase(name, "content-length")) return ReadLength(value, fields);
  if (EqualIgnoringCase(name, "transfer-encoding")) {
    if (fields.chunked || !EqualIgnoringCase(value, "chunked")) {
      return "HTTP Transfer-Encoding is not chunked alone";
    }
    fields.chunked = true;
  }
  if (EqualIgnoringCase(name, "http2-settings")) fields.strip_upgrade = true;
  if (EqualIgnoringCase(name, "upgrade")) {
    fields.upgrade = true;
    if (LeadsToOtherRequests(value)) fields.strip_upgrade = true;
  }
  return nullptr;
}

// What no single line shows.
const char* Judge(const Fields& fields, HttpHead& head) {
  if (fields.chunked && fields.length) return "HTTP Content-Length beside Transfer-Encoding";
  if (fields.chunked && fields.http10) return "HTTP Transfer-Encoding in a request of HTTP/1.0";
  if (!fields.has_host && !fields.http10) return "no HTTP Host";
  if (fields.target && (fields.has_host || !fields.http10) &&
      !(fields.host && fields.host->Agrees(*fields.target))) {
    return "HTTP Host is not the host of the request target";
  }
  const auto& authority = fields.host ? fields.host : fields.target;
  if (authority) {
    head.name = authority->name;
    head.address = authority->address;
    head.port = authority->port;
  }
  head.strip_upgrade = fields.strip_upgrade;
  head.upgrade = fields.upgrade && !fields.strip_upgrade;
  if (fields.chunked) head.body = HttpHead::Body::kChunked;
  if (fields.length.value_or(0) > 0) head.body = HttpHead::Body::kLength;
  head.length = fields.length.value_or(0);
  // Nobody could tell whether the server reads it as a body or as the other protocol.
  if (head.upgrade && head.body != HttpHead::Body::kNone) return "HTTP upgrade with a body";
  return nullptr;
}

}  // namespace

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

const char* ReadHttpField(std::string_view line, std::string_view& name, std::string_view& value) {
  const size_t colon = line.find(':');
  // A line that begins with a blank (obs-fold) has no token in front either.
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return "malformed HTTP header line";
  }
  name = line.substr(0, colon);
  value = Trim(line.substr(colon + 1));
  const auto bad = [](char c) { return IsControl(c) && c != '\t'; };
  return std::any_of(value.begin(), value.end(), bad) ? "malformed HTTP header line" : nullptr;
}

std::string WithoutUpgrade(std::string_view text) {
  std::string left;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find(kLineEnd) + kLineEnd.size());
    const std::string_view name = line.substr(0, line.find(':'));
    if (!EqualIgnoringCase(name, "upgrade") && !EqualIgnoringCase(name, "http2-settings")) {
      left.append(line);
    }
    text.remove_prefix(line.size());
  }
  return left;
}

const char* ReadHttpHead(std::string_view text, HttpHead& head) {
  head = {};
  Fields fields;
  bool first = true;
  while (true) {
    const size_t end = text.find(kLineEnd);
    if (end == std::string_view::npos) return "malformed HTTP head";
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + kLineEnd.size());
    if (line.empty()) break;
    const char* wrong = first ? ReadRequestLine(line, fields) : ReadField(line, fields);
    if (wrong) return wrong;
    first = false;
  }
  if (first || !text.empty()) return "malformed HTTP head";
  return Judge(fields, head);
}

}  // namespace atl::netpolicy
