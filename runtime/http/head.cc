#include "runtime/http/head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "runtime/http/ascii.h"

namespace atl::http {
namespace {

using HeadStatus = tl::expected<void, HeadError>;

tl::unexpected<HeadError> Bad(int status, const char* message) {
  return tl::unexpected<HeadError>(HeadError{status, message});
}

// Takes the next line from `text`. The scanner has checked that every LF follows a CR.
std::string_view TakeLine(std::string_view* text) {
  const size_t end = text->find("\r\n");
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 2);
  return line;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

// Parses the lines after the first one, up to the blank line.
HeadStatus ParseFields(std::string_view text, Headers* headers) {
  headers->list.reserve(16);
  while (true) {
    const std::string_view line = TakeLine(&text);
    if (line.empty()) return {};
    if (line.front() == ' ' || line.front() == '\t') return Bad(400, "folded header line");
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return Bad(400, "header line without a colon");
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = TrimBlanks(line.substr(colon + 1));
    if (!IsToken(name)) return Bad(400, "invalid character in a header name");
    if (!std::all_of(value.begin(), value.end(), IsValueChar)) {
      return Bad(400, "control character in a header value");
    }
    if (headers->list.size() == kMaxHeaderFields) return Bad(431, "too many header fields");
    headers->Add(std::string(name), std::string(value));
  }
}

// Facts from the fields about the message's length and the connection.
struct FieldFacts {
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool close = false;
  bool keep_alive = false;
  bool connection_upgrade = false;
  bool has_upgrade = false;
  bool expect_continue = false;
  int hosts = 0;
};

std::optional<uint64_t> ParseLength(std::string_view text) {
  // 18 digits fit into 63 bits, so sums cannot overflow.
  if (text.empty() || text.size() > 18) return std::nullopt;
  if (!std::all_of(text.begin(), text.end(), IsDigit)) return std::nullopt;
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

tl::expected<FieldFacts, HeadError> ReadFacts(const Headers& headers) {
  FieldFacts facts;
  for (const Header& header : headers.list) {
    const std::string_view name = header.name;
    if (EqualNoCase(name, "content-length")) {
      if (facts.content_length) return Bad(400, "more than one Content-Length");
      facts.content_length = ParseLength(header.value);
      if (!facts.content_length) return Bad(400, "Content-Length is not a number");
    } else if (EqualNoCase(name, "transfer-encoding")) {
      if (facts.chunked) return Bad(400, "more than one Transfer-Encoding");
      if (!EqualNoCase(header.value, "chunked")) {
        return Bad(501, "Transfer-Encoding other than chunked");
      }
      facts.chunked = true;
    } else if (EqualNoCase(name, "connection")) {
      facts.close = facts.close || HasElement(header.value, "close");
      facts.keep_alive = facts.keep_alive || HasElement(header.value, "keep-alive");
      facts.connection_upgrade = facts.connection_upgrade || HasElement(header.value, "upgrade");
    } else if (EqualNoCase(name, "upgrade")) {
      facts.has_upgrade = true;
    } else if (EqualNoCase(name, "expect")) {
      if (!EqualNoCase(header.value, "100-continue")) return Bad(417, "unknown Expect");
      facts.expect_continue = true;
    } else if (EqualNoCase(name, "host")) {
      ++facts.hosts;
    }
  }
  if (facts.chunked && facts.content_length) {
    return Bad(400, "Content-Length beside Transfer-Encoding");
  }
  return facts;
}

bool ParseVersion(std::string_view text, bool* is_1_0) {
  *is_1_0 = text == "HTTP/1.0";
  return *is_1_0 || text == "HTTP/1.1";
}

bool ValidHost(std::string_view host) {
  return std::all_of(host.begin(), host.end(), [](char c) {
    return IsDigit(c) || (ToLower(c) >= 'a' && ToLower(c) <= 'z') ||
           std::string_view("-._~%!$&'()*+,;=:[]").find(c) != std::string_view::npos;
  });
}

// Reduces an absolute target to its path and returns its authority (RFC 9112 section 3.2.2).
std::optional<std::string> TakeAuthority(std::string* target) {
  constexpr std::string_view kScheme = "http://";
  if (!EqualNoCase(std::string_view(*target).substr(0, kScheme.size()), kScheme)) return {};
  const size_t end = std::min(target->find_first_of("/?", kScheme.size()), target->size());
  std::string authority = target->substr(kScheme.size(), end - kScheme.size());
  target->erase(0, end);
  if (target->empty() || target->front() != '/') target->insert(0, "/");
  return authority;
}

bool SameAuthority(std::string_view a, std::string_view b) {
  constexpr std::string_view kDefaultPort = ":80";
  if (a.ends_with(kDefaultPort)) a.remove_suffix(kDefaultPort.size());
  if (b.ends_with(kDefaultPort)) b.remove_suffix(kDefaultPort.size());
  return EqualNoCase(a, b);
}

HeadStatus ParseRequestLine(std::string_view line, RequestHead* out) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first) return Bad(400, "malformed request line");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method)) return Bad(400, "invalid character in the method");
  // CONNECT is refused, because what follows it would not be HTTP, and no program here is a forward
  // proxy.
  if (method == "CONNECT") return Bad(400, "CONNECT");
  if (!ValidTarget(target)) return Bad(400, "invalid character in the request target");
  if (!ParseVersion(version, &out->http_1_0)) {
    return version.substr(0, 5) == "HTTP/" ? Bad(505, "neither HTTP/1.0 nor HTTP/1.1")
                                           : Bad(400, "malformed request line");
  }
  out->request.method = method;
  out->request.target = target;
  return {};
}

// The server that is meant must not depend on whether the target or the Host field is read.
HeadStatus CheckTarget(int hosts, RequestHead* out) {
  Request& request = out->request;
  if (hosts > 1) return Bad(400, "more than one Host");
  if (hosts == 0 && !out->http_1_0) return Bad(400, "no Host");
  if (std::optional<std::string> authority = TakeAuthority(&request.target)) {
    if (hosts == 0) request.headers.Add("Host", *authority);
    if (authority->empty() || !SameAuthority(*authority, request.headers.Get("host"))) {
      return Bad(400, "Host is not the host of the request target");
    }
  }
  if (!ValidHost(request.headers.Get("host"))) return Bad(400, "invalid character in Host");
  if (request.target.front() == '/') return {};
  if (request.target == "*" && request.method == "OPTIONS") return {};
  return Bad(400, "the request target must be a path");
}

}  // namespace

HeadScanner::State HeadScanner::Scan(std::string_view bytes) {
  // A client with another protocol (such as TLS) gets an error at once, and not after the timeout.
  if (!bytes.empty() && !IsTokenChar(bytes.front())) return State::kBad;
  while (next_ < bytes.size()) {
    const void* found = std::memchr(bytes.data() + next_, '\n', bytes.size() - next_);
    if (found == nullptr) {
      next_ = bytes.size();
      return State::kMore;
    }
    const auto at = static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
    if (at == 0 || bytes[at - 1] != '\r') return State::kBad;
    next_ = at + 1;
    if (at >= 3 && bytes[at - 2] == '\n') return State::kComplete;
  }
  return State::kMore;
}

tl::expected<RequestHead, HeadError> ParseRequestHead(std::string_view head) {
  RequestHead out;
  const std::string_view line = TakeLine(&head);
  if (auto ok = ParseRequestLine(line, &out); !ok) return tl::unexpected<HeadError>(ok.error());
  if (auto ok = ParseFields(head, &out.request.headers); !ok) {
    return tl::unexpected<HeadError>(ok.error());
  }
  auto facts = ReadFacts(out.request.headers);
  if (!facts) return tl::unexpected<HeadError>(facts.error());
  if (auto ok = CheckTarget(facts->hosts, &out); !ok) return tl::unexpected<HeadError>(ok.error());
  if (out.http_1_0 && facts->chunked) return Bad(400, "Transfer-Encoding in HTTP/1.0");

  if (facts->chunked) {
    out.body.kind = Framing::Kind::kChunked;
  } else if (facts->content_length.value_or(0) > 0) {
    out.body = {Framing::Kind::kLength, *facts->content_length};
  }
  out.keep_alive = !facts->close && (!out.http_1_0 || facts->keep_alive);
  out.expect_continue =
      facts->expect_continue && !out.http_1_0 && out.body.kind != Framing::Kind::kNone;
  out.upgrade = facts->connection_upgrade && facts->has_upgrade && !out.http_1_0 &&
                out.body.kind == Framing::Kind::kNone;
  return out;
}

std::optional<StatusLine> ParseStatusLine(std::string_view line) {
  StatusLine out;
  const std::string_view code = line.size() >= 12 ? line.substr(9, 3) : std::string_view();
  if (code.empty() || !ParseVersion(line.substr(0, 8), &out.http_1_0) || line[8] != ' ' ||
      !std::all_of(code.begin(), code.end(), IsDigit) || code[0] == '0' ||
      (line.size() > 12 && line[12] != ' ')) {
    return std::nullopt;
  }
  std::from_chars(code.data(), code.data() + code.size(), out.status);
  if (line.size() > 13) out.reason = line.substr(13);
  if (!std::all_of(out.reason.begin(), out.reason.end(), IsValueChar)) return std::nullopt;
  return out;
}

Result<ResponseHead> ParseResponseHead(std::string_view head, bool to_head) {
  ResponseHead out;
  const auto line = ParseStatusLine(TakeLine(&head));
  if (!line) return Fail(Code::kUnavailable, "malformed status line");
  out.status = line->status;
  out.reason = line->reason;
  if (auto ok = ParseFields(head, &out.headers); !ok) {
    return Fail(Code::kUnavailable, ok.error().message);
  }
  auto facts = ReadFacts(out.headers);
  if (!facts) return Fail(Code::kUnavailable, facts.error().message);
  out.keep_alive = !facts->close && (!line->http_1_0 || facts->keep_alive);

  const bool bodiless = to_head || out.status < 200 || out.status == 204 || out.status == 304;
  if (bodiless) {
    out.body.kind = Framing::Kind::kNone;
  } else if (facts->chunked) {
    out.body.kind = Framing::Kind::kChunked;
  } else if (facts->content_length) {
    out.body = {Framing::Kind::kLength, *facts->content_length};
  } else {
    out.body.kind = Framing::Kind::kUntilClose;
    out.keep_alive = false;
  }
  return out;
}

bool ValidField(std::string_view name, std::string_view value) {
  return IsToken(name) && std::all_of(value.begin(), value.end(), IsValueChar);
}

bool ValidTarget(std::string_view target) {
  return !target.empty() &&
         std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; }) &&
         target.find('#') == std::string_view::npos;
}

bool Lists(const Headers& headers, std::string_view name, std::string_view element) {
  return std::any_of(headers.list.begin(), headers.list.end(), [&](const Header& header) {
    return EqualNoCase(header.name, name) && HasElement(header.value, element);
  });
}

bool IsHopByHop(const Headers& headers, std::string_view name) {
  static constexpr std::array<std::string_view, 9> kFixed = {"connection",
                                                             "keep-alive",
                                                             "proxy-authenticate",
                                                             "proxy-authorization",
                                                             "proxy-connection",
                                                             "te",
                                                             "trailer",
                                                             "transfer-encoding",
                                                             "upgrade"};
  for (std::string_view fixed : kFixed) {
    if (EqualNoCase(fixed, name)) return true;
  }
  // Listing these in Connection would hide the end of the body, or the recipient, from the next
  // server.
  if (EqualNoCase(name, "content-length") || EqualNoCase(name, "host")) return false;
  return Lists(headers, "connection", name);
}

}  // namespace atl::http
