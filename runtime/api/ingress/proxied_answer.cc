#include "runtime/api/ingress/proxied_answer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/http/ascii.h"

namespace atl::api {
namespace {

// Of an answer in which addresses are put for others.
constexpr size_t kMostTold = 1 << 20;

// What a page can do without an origin of its own. Not allow-same-origin, which is the point, and
// not allow-top-navigation, with which a page in a frame could lead its surroundings away.
constexpr char kPolicy[] =
    "sandbox allow-downloads allow-forms allow-modals allow-pointer-lock allow-popups "
    "allow-popups-to-escape-sandbox allow-scripts";

// They hold for a whole host, whatever the port, or for the site that all names below a domain are:
// how it is reached (which is not the server's business), and what a browser keeps of it.
constexpr std::string_view kOfTheHost[] = {"Alt-Svc",         "Clear-Site-Data",
                                           "Expect-CT",       "NEL",
                                           "Public-Key-Pins", "Public-Key-Pins-Report-Only",
                                           "Report-To",       "Strict-Transport-Security"};
// They hold for an origin, and these forms share ours. Cookies would never come back (proxy.cc),
// but could push those of the host's other servers out.
constexpr std::string_view kOfTheOrigin[] = {
    "Accept-CH", "Critical-CH", "Origin-Agent-Cluster", "Sec-Session-Registration",
    "Secure-Session-Registration", "Service-Worker-Allowed", "Set-Cookie", "Set-Cookie2",
    "Set-Login",
    // Who answers there is us.
    "Server", "Use-As-Dictionary"};

template <size_t n>
bool IsOneOf(const std::string_view (&names)[n], std::string_view name) {
  return std::any_of(std::begin(names), std::end(names),
                     [name](std::string_view one) { return http::EqualNoCase(one, name); });
}

// Without Domain: for the host that set it alone.
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

// "https" of "https://…"; "" of a reference without a scheme.
std::string_view SchemeOf(std::string_view to) {
  const size_t end =
      static_cast<size_t>(std::find_if_not(to.begin(), to.end(), IsSchemeChar) - to.begin());
  return end < to.size() && to[end] == ':' ? to.substr(0, end) : std::string_view();
}

// "." and "..", and how else browsers write them.
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

// Resolved, and never above the root. `path` begins with '/'.
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

// "5" or "5; url=/next".
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
  for (size_t at = low.find("<script"); at != std::string::npos; at = low.find("<script", at + 1)) {
    std::string_view tag = std::string_view(low).substr(at, kMaxTag);
    tag = tag.substr(0, tag.find('>'));
    for (const char* type : {"type=\"module\"", "type='module'", "type=module"}) {
      if (tag.find(type) != std::string::npos) return true;
    }
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
  // Browsers take some of these out before they look.
  if (std::any_of(to.begin(), to.end(),
                  [](char c) { return !http::IsValueChar(c) || c == '\t'; })) {
    return std::nullopt;
  }
  const size_t path_end = std::min(to.find_first_of("?#"), to.size());
  const std::string_view tail = to.substr(path_end);
  std::string there(to.substr(0, path_end));
  std::replace(there.begin(), there.end(), '\\', '/');  // as browsers do

  const std::string_view scheme = SchemeOf(there);
  if (!scheme.empty()) {
    if (!http::EqualNoCase(scheme, "http") && !http::EqualNoCase(scheme, "https")) {
      return of_execd ? std::nullopt : std::optional<std::string>(to);
    }
    there.erase(0, scheme.size() + 1);
    if (!there.starts_with("//"))
      return std::nullopt;  // "http:next" is below the base for browsers
  }
  const bool named = there.starts_with("//");
  if (named) {
    const size_t end = std::min(there.find('/', 2), there.size());
    std::string authority = there.substr(2, end - 2);
    authority.erase(0, authority.rfind('@') + 1);  // npos + 1 is 0
    if (authority.empty()) return std::nullopt;    // "///host" names a host for browsers
    if (!http::EqualNoCase(authority, inside) && !http::EqualNoCase(authority, host)) {
      return of_execd ? std::nullopt : std::optional<std::string>(to);
    }
    there.erase(0, end);
    if (there.empty()) there = "/";
  }
  if (prefix.empty()) {
    // The paths are the same on both sides. The scheme is the client's.
    return named ? "//" + host + Resolved(there).append(tail) : std::string(to);
  }
  if (there.empty()) return prefix + path + std::string(tail);
  if (!there.starts_with('/')) {
    return prefix + Resolved(path.substr(0, path.rfind('/') + 1) + there).append(tail);
  }
  const std::string resolved = Resolved(there);
  // Some servers are told what stands before them.
  return (IsBelow(resolved, prefix) ? std::string() : prefix) + resolved + std::string(tail);
}

bool ProxiedAnswer::MayTellDebugger() const {
  return path == "/json" || path.starts_with("/json/");
}

std::string ProxiedAnswer::TellDebugger(std::string body) const {
  // It ends up within a string of JSON.
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
    // No debugger has so many pages: a server that has us write what nobody asked for.
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
  // One URL is all of them: a cache must not give one sandbox's answer for another's, or for ours.
  if (form == RouteForm::kHeader) answer->Add("Vary", kIngressHeader);
}

}  // namespace atl::api
