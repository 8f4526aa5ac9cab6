#include "netpolicy/splice/host_name.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "runtime/http/ascii.h"

namespace atl::netpolicy {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool IsLabel(std::string_view label) {
  if (label.empty() || label.size() > kMaxHostLabel) return false;
  if (label.front() == '-' || label.back() == '-') return false;
  return std::all_of(label.begin(), label.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || http::IsDigit(c) || c == '-' || c == '_';
  });
}

bool IsNumber(std::string_view label) {
  if (label.starts_with("0x")) {
    return std::all_of(label.begin() + 2, label.end(),
                       [](char c) { return http::IsDigit(c) || (c >= 'a' && c <= 'f'); });
  }
  return std::all_of(label.begin(), label.end(), http::IsDigit);
}

}  // namespace

std::optional<std::string> NormalHostName(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.empty() || text.size() > kMaxHostName) return std::nullopt;
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(), Lower);
  for (size_t at = 0;;) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string_view label = std::string_view(name).substr(at, dot - at);
    if (!IsLabel(label)) return std::nullopt;
    if (dot == name.size()) {
      if (IsNumber(label)) return std::nullopt;
      return name;
    }
    at = dot + 1;
  }
}

std::optional<std::string> HostAddressBytes(std::string_view text) {
  const bool ipv6 = text.size() > 2 && text.front() == '[' && text.back() == ']';
  if (ipv6) text = text.substr(1, text.size() - 2);
  std::array<char, sizeof(in6_addr)> bytes{};
  const std::string terminated(text);
  // A NUL within the text would end it early.
  if (terminated.find('\0') != std::string::npos) return std::nullopt;
  if (::inet_pton(ipv6 ? AF_INET6 : AF_INET, terminated.c_str(), bytes.data()) != 1) {
    return std::nullopt;
  }
  return std::string(bytes.data(), ipv6 ? sizeof(in6_addr) : sizeof(in_addr));
}

std::optional<HostField> ReadHostField(std::string_view text) {
  HostField field;
  const size_t bracket = text.rfind(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, field.port);
    // RFC 3986 allows an empty port, but no client sends one.
    if (error != std::errc() || parsed != end || field.port == 0) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (auto address = HostAddressBytes(text)) {
    field.address = std::move(*address);
  } else if (auto name = NormalHostName(text)) {
    field.name = std::move(*name);
  } else {
    return std::nullopt;
  }
  return field;
}

}  // namespace atl::netpolicy
