#include "netpolicy/vault/fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/http/ascii.h"
#include "runtime/http/head.h"

namespace atl::vault {
namespace {

constexpr size_t kMaxHostName = 253;
constexpr size_t kMaxHostLabel = 63;
// The longest method of the IANA registry has 17 characters.
constexpr size_t kMaxMethod = 32;
constexpr size_t kMaxHeaderName = 128;

// Refused in addition to the hop-by-hop headers.
constexpr std::array<std::string_view, 8> kReserved = {
    "content-length", "content-type",    "expect",           "forwarded",
    "host",           "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"};

bool IsReserved(std::string_view name) {
  return http::IsHopByHop({}, name) ||
         std::any_of(kReserved.begin(), kReserved.end(),
                     [&](std::string_view one) { return http::EqualNoCase(one, name); });
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

char Upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}

// Returns the text for an error message: shortened, and with printable characters only.
std::string Shown(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string shown = "\"";
  for (const char c : text.substr(0, kMost)) {
    const bool visible = static_cast<unsigned char>(c) < 0x80 && !IsControl(c) && c != '"';
    shown.push_back(visible ? c : '?');
  }
  return shown + (text.size() > kMost ? "…\"" : "\"");
}

tl::unexpected<Error> Refused(std::string_view text, const std::string& what) {
  return Fail(Code::kInvalidArgument, Shown(text) + " " + what);
}

bool IsLabel(std::string_view label) {
  if (label.empty() || label.size() > kMaxHostLabel) return false;
  if (label.front() == '-' || label.back() == '-') return false;
  return std::all_of(label.begin(), label.end(),
                     [](char c) { return http::IsDigit(c) || (c >= 'a' && c <= 'z') || c == '-'; });
}

// inet_aton(3) and browsers read "127.1" and "0x7f.1" as addresses.
bool IsNumber(std::string_view label) {
  if (label.starts_with("0x")) {
    label.remove_prefix(2);
    return std::all_of(label.begin(), label.end(), [](char c) { return http::HexValue(c) >= 0; });
  }
  return std::all_of(label.begin(), label.end(), http::IsDigit);
}

bool IsFullName(std::string_view name) {
  if (name.size() > kMaxHostName) return false;
  size_t labels = 0;
  for (;;) {
    const size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (!IsLabel(label)) return false;
    ++labels;
    if (dot == std::string_view::npos) return labels > 1 && !IsNumber(label);
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), http::ToLower);
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

Result<std::string> NormalName(std::string_view text) {
  const std::string_view name = Trimmed(text);
  if (name.empty()) return Fail(Code::kInvalidArgument, "a name cannot be empty");
  if (name.size() > kMaxName) {
    return Refused(name, "has more than the " + std::to_string(kMaxName) + " bytes of a name");
  }
  if (std::any_of(name.begin(), name.end(), IsControl)) {
    return Refused(name, "has a control character");
  }
  return std::string(name);
}

Result<std::string> NormalHost(std::string_view text) {
  std::string host = LowerCase(Trimmed(text));
  if (host.ends_with('.')) host.pop_back();
  std::string_view name = host;
  if (name.starts_with("*.")) name.remove_prefix(2);
  if (IsFullName(name)) return host;
  return Refused(text,
                 "is no host: use a full name such as api.example.com, or *.example.com for those "
                 "below it; no address, port or path");
}

Result<std::string> NormalMethod(std::string_view text) {
  std::string method(Trimmed(text));
  std::transform(method.begin(), method.end(), method.begin(), Upper);
  if (method.empty() || method.size() > kMaxMethod ||
      !std::all_of(method.begin(), method.end(), http::IsTokenChar)) {
    return Refused(text, "is no method");
  }
  return method;
}

Result<std::string> NormalPath(std::string_view text) {
  const std::string_view path = Trimmed(text);
  if (!path.starts_with('/')) return Refused(text, "does not start with /");
  if (path.size() > kMaxPath) {
    return Refused(path, "has more than the " + std::to_string(kMaxPath) + " bytes of a path");
  }
  const bool visible = std::all_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
  });
  if (!visible) return Refused(path, "has a blank or a control character");
  return std::string(path);
}

Result<std::string> NormalHeaderName(std::string_view text) {
  std::string name(Trimmed(text));
  if (name.empty() || name.size() > kMaxHeaderName ||
      !std::all_of(name.begin(), name.end(), http::IsTokenChar)) {
    return Refused(text, "is no name of a header");
  }
  if (IsReserved(name)) return Refused(name, "is a reserved header");
  bool first = true;
  for (char& c : name) {
    c = first ? Upper(c) : http::ToLower(c);
    first = c == '-';
  }
  return name;
}

bool TakesSubstitutions(std::string_view header_name) {
  return http::EqualNoCase(header_name, "content-type") || !IsReserved(header_name);
}

Result<std::string> NormalPlaceholder(std::string_view text) {
  const std::string_view placeholder = Trimmed(text);
  if (placeholder.empty()) return Fail(Code::kInvalidArgument, "a placeholder cannot be empty");
  if (placeholder.size() > kMaxPlaceholder) {
    return Fail(Code::kInvalidArgument, std::to_string(placeholder.size()) +
                                            " bytes are more than the " +
                                            std::to_string(kMaxPlaceholder) + " of a placeholder");
  }
  return std::string(placeholder);
}

Status CheckValue(std::string_view text) {
  if (text.empty()) return Fail(Code::kInvalidArgument, "the value cannot be empty");
  if (text.size() > kMaxValue) {
    return Fail(Code::kInvalidArgument, std::to_string(text.size()) + " bytes are more than the " +
                                            std::to_string(kMaxValue) + " of a value");
  }
  return {};
}

}  // namespace atl::vault
