#include "runtime/api/ingress/proxied_answer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/http/ascii.h"

namespace atl::api {
namespace {

// Limit of an answer whose addresses are rewritten.
constexpr size_t kMostTold = 1 << 20;

// The rights of a page without an origin. allow-same-origin is missing on purpose. So is
// allow-top-navigation, by which a framed page could navigate the page around it.
constexpr char kPolicy[] =
    "sandbox allow-downloads allow-forms allow-modals allow-pointer-lock allow-popups "
    "allow-popups-to-escape-sandbox allow-scripts";

// Headers that affect a whole host, whatever the port, or a whole site (all names below a domain).
// They change how clients reach the host, or what the browser stores for it; neither is the
// business of a server in a sandbox.
constexpr std::string_view kOfTheHost[] = {"Alt-Svc",         "Clear-Site-Data",
                                           "Expect-CT",       "NEL",
                                           "Public-Key-Pins", "Public-Key-Pins-Report-Only",
                                           "Report-To",       "Strict-Transport-Security"};
// Headers that affect an origin, which these forms share with the daemon. Cookies would never come
// back (proxy.cc), but they could evict cookies of other servers on the host.
constexpr std::string_view kOfTheOrigin[] = {
    "Accept-CH", "Critical-CH", "Origin-Agent-Cluster", "Sec-Session-Registration",
    "Secure-Session-Registration", "Service-Worker-Allowed", "Set-Cookie", "Set-Cookie2",
    "Set-Login",
    // The daemon answers at this address.
    "Server", "Use-As-Dictionary"};

template <size_t n>
bool IsOneOf(const std::string_view (&names)[n], std::string_view name) {
  return std::any_of(std::begin(names), std::end(names),
                     [name](std::string_view one) { return http::EqualNoCase(one, name); });
}

// Removes Domain, so that only the host that set the cookie gets it back.
std::string WithoutDomain(std::string_view cookie) {
  std::string kept;
  for (bool first = true; !cookie.empty(); first = false) {
    const size_t end = std::min(cookie.find(';'), cookie.size());
    const std::string_view part = cookie.substr(0, end);
    cookie.remove_prefix(std::min(end + 1, cookie.size()));
    const std::string_view name = http::TrimBlanks(part.substr(0, part.find('=')));
    if (!first && http::EqualNoCase(name, "domain")) continue;
    if (!first) kept.push_back(';');
    kept.append(part);
  }
  return kept;
}

bool IsSchemeChar(char c) {
  return c == '+' || c == '-' || c == '.' || http::IsDigit(c) ||
         (http::ToLower(c) >= 'a' && http::ToLower(c) <= 'z');
}

// Returns "https" for "https://…"; "" for a reference without a scheme.
std::string_view SchemeOf(std::string_view to) {
  const size_t end =
      static_cast<size_t>(std::find_if_not(to.begin(), to.end(), IsSchemeChar) - to.begin());
  return end < to.size() && to[end] == ':' ? to.substr(0, end) : std::string_view();
}

// Counts the dots of "." and "..", including the other spellings that browsers accept.
size_t DotsOf(std::string_view segment) {
  size_t dots = 0;
  while (!segment.empty()) {
    const bool escaped = segment.size() >= 3 && http::EqualNoCase(segment.substr(0, 3), "%2e");
    if (!escaped && segment.front() != '.') return 0;
    segment.remove_prefix(escaped ? 3 : 1);
    ++dots;
  }
  return dots <= 2 ? dots : 0;
}

// Resolves "." and ".." in a path, and never leaves the root. `path` begins with '/'.
std::string Resolved(std::string_view path) {
  std::vector<std::string_view> segments;
  bool directory = false;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    path.remove_prefix(end);
    const size_t dots = DotsOf(segment);
    directory = dots != 0;
    if (dots == 0) segments.push_back(segment);
    if (dots == 2 && !segments.empty()) segments.pop_back();
  }
  std::string resolved;
  for (const std::string_view segment : segments) resolved.append("/").append(segment);
  if (directory || resolved.empty()) resolved.push_back('/');
  return resolved;
}

bool IsBelow(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

// Rewrites a Refresh header: "5" or "5; url=/next".
std::optional<std::string> Refresh(const ProxiedAnswer& answer, std::string_view value) {
  const size_t digits = std::min(value.find_first_not_of("0123456789."), value.size());
  if (digits == 0) return std::nullopt;
  const std::string_view delay = value.substr(0, digits);
  std::string_view rest = http::TrimBlanks(value.substr(digits));
  if (rest.empty()) return std::string(delay);
  if (rest.front() == ';' || rest.front() == ',') rest = http::TrimBlanks(rest.substr(1));
  constexpr std::string_view kUrl = "url";
  if (!http::EqualNoCase(rest.substr(0, kUrl.size()), kUrl)) return std::nullopt;
  rest = http::TrimBlanks(rest.substr(kUrl.size()));
  if (!rest.starts_with('=')) return std::nullopt;
  rest = http::TrimBlanks(rest.substr(1));
  if (rest.find_first_of("'\"") != std::string_view::npos) return std::nullopt;
  const auto to = answer.Redirect(rest);
  if (!to) return std::nullopt;
  return std::string(delay).append("; url=").append(*to);
}

std::string HtmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

bool HasScriptModule(std::string_view html) {
  // A sandbox writes the page. The bound keeps a page of tags without an end linear.
  constexpr size_t kMaxTag = 512;
  std::string low(html);
  std::transform(low.begin(), low.end(), low.begin(), http::ToLower);
  constexpr std::string_view kScript = "<script";
  for (size_t at = low.find(kScript); at != std::string::npos;) {
    std::string_view tag = std::string_view(low).substr(at, kMaxTag);
    tag = tag.substr(0, tag.find('>'));
    for (const char* type : {"type=\"module\"", "type='module'", "type=module"}) {
      if (tag.find(type) != std::string::npos) return true;
    }
    at = low.find(kScript, at + std::max(tag.size(), kScript.size()));
  }
  return false;
}

}  // namespace

std::optional<std::string> ProxiedAnswer::ExplainOrigin(const http::Headers& fields,
                                                        std::string_view body) const {
  constexpr std::string_view kHtml = "text/html";
  if (!http::EqualNoCase(fields.Get("Content-Type").substr(0, kHtml.size()), kHtml) ||
      fields.Has("Access-Control-Allow-Origin") || !HasScriptModule(body)) {
    return std::nullopt;
  }
  std::string page =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
      "<title>This page needs an address of its own</title>"
      "<h1>This page needs an address of its own</h1>"
      "<p>Its program is made of script modules, which a browser loads only for a page that has an "
      "origin. Below this path it has none, because all sandboxes share the server's.</p>";
  if (!own_origin.empty()) {
    const std::string link = HtmlText(own_origin);
    page += "<p>It works at <a href=\"" + link + "\">" + link + "</a></p>";
  } else {
    page += "<p>Type <code>atoll forward " + HtmlText(name) +
            "</code> on your machine and open the address that it prints. Or the operator lets the "
            "server tell host names: <code>ingress.mode</code>.</p>";
  }
  return page + "</html>\n";
}

std::optional<std::string> ProxiedAnswer::Redirect(std::string_view to) const {
  to = http::TrimBlanks(to);
  // Browsers drop some of these characters before they parse.
  if (std::any_of(to.begin(), to.end(),
                  [](char c) { return !http::IsValueChar(c) || c == '\t'; })) {
    return std::nullopt;
  }
  const size_t path_end = std::min(to.find_first_of("?#"), to.size());
  const std::string_view tail = to.substr(path_end);
  std::string there(to.substr(0, path_end));
  std::replace(there.begin(), there.end(), '\\', '/');  // browsers do the same

  const std::string_view scheme = SchemeOf(there);
  if (!scheme.empty()) {
    if (!http::EqualNoCase(scheme, "http") && !http::EqualNoCase(scheme, "https")) {
      return of_execd ? std::nullopt : std::optional<std::string>(to);
    }
    there.erase(0, scheme.size() + 1);
    if (!there.starts_with("//"))
      return std::nullopt;  // browsers resolve "http:next" against the base
  }
  const bool named = there.starts_with("//");
  if (named) {
    const size_t end = std::min(there.find('/', 2), there.size());
    std::string authority = there.substr(2, end - 2);
    authority.erase(0, authority.rfind('@') + 1);  // npos + 1 is 0
    if (authority.empty()) return std::nullopt;    // browsers read "///host" as a host
    if (!http::EqualNoCase(authority, inside) && !http::EqualNoCase(authority, host)) {
      return of_execd ? std::nullopt : std::optional<std::string>(to);
    }
    there.erase(0, end);
    if (there.empty()) there = "/";
  }
  if (prefix.empty()) {
    // The path is the same on both sides. The scheme is the client's.
    return named ? "//" + host + Resolved(there).append(tail) : std::string(to);
  }
  if (there.empty()) return prefix + path + std::string(tail);
  if (!there.starts_with('/')) {
    return prefix + Resolved(path.substr(0, path.rfind('/') + 1) + there).append(tail);
  }
  const std::string resolved = Resolved(there);
  // Some servers are configured with the prefix and already include it.
  return (IsBelow(resolved, prefix) ? std::string() : prefix) + resolved + std::string(tail);
}

bool ProxiedAnswer::MayTellDebugger() const {
  return path == "/json" || path.starts_with("/json/");
}

std::string ProxiedAnswer::TellDebugger(std::string body) const {
  // The address is inserted into a JSON string.
  const auto plain = [](char c) {
    return std::string_view("\"\\").find(c) == std::string::npos && c > ' ';
  };
  if (body.find("\"webSocketDebuggerUrl\"") == std::string::npos ||
      !std::all_of(host.begin(), host.end(), plain)) {
    return body;
  }
  const std::string scheme = tls ? "wss" : "ws";
  const auto both = [&](const std::string& between) {
    return std::pair("ws" + between + inside + "/", scheme + between + host + prefix + "/");
  };
  const std::pair<std::string, std::string> forms[] = {both("://"), both("=")};
  const std::string_view left = body;
  std::string edited;
  size_t done = 0;
  for (size_t at = left.find("ws"); at != std::string::npos; at = left.find("ws", at + 2)) {
    for (const auto& [told, meant] : forms) {
      if (!left.substr(at).starts_with(told)) continue;
      edited.append(left.substr(done, at - done)).append(meant);
      done = at + told.size();
    }
    // No debugger lists so many pages: the server tries to make the daemon write endlessly.
    if (edited.size() > kMostTold) return body;
  }
  edited.append(left.substr(done));
  return edited;
}

void ProxiedAnswer::Confine(int status, http::Headers* answer) const {
  const bool has_origin = form == RouteForm::kHost;
  std::erase_if(answer->list, [this, has_origin](http::Header& field) {
    if (IsOneOf(kOfTheHost, field.name)) return true;
    if (!has_origin && IsOneOf(kOfTheOrigin, field.name)) return true;
    if (http::EqualNoCase(field.name, "Set-Cookie")) field.value = WithoutDomain(field.value);
    std::optional<std::string> to = field.value;
    if (http::EqualNoCase(field.name, "Location")) to = Redirect(field.value);
    if (http::EqualNoCase(field.name, "Refresh")) to = Refresh(*this, field.value);
    if (to) field.value = std::move(*to);
    return !to;
  });
  if (has_origin || status < 200) return;
  answer->Add("Content-Security-Policy", kPolicy);
  // All sandboxes share one URL here. A cache must not return the answer of one for another, or for
  // the daemon's own.
  if (form == RouteForm::kHeader) answer->Add("Vary", kIngressHeader);
}

}  // namespace atl::api
