// The character classes of RFC 9110 and RFC 9112, independent of the locale.
#pragma once

#include <string_view>

namespace atl::http {

constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Returns true for characters of methods and header names (RFC 9110 section 5.6.2).
constexpr bool IsTokenChar(char c) {
  if (IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Returns true for characters of header values: visible ASCII, blank, tab, and bytes above 0x7f.
constexpr bool IsValueChar(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

constexpr char ToLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// Returns -1 if it is not a hexadecimal digit.
constexpr int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  const char lower = ToLower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

constexpr bool EqualNoCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (ToLower(a[i]) != ToLower(b[i])) return false;
  }
  return true;
}

constexpr std::string_view TrimBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Calls `visit` with each trimmed, non-empty element of a comma-separated list.
template <typename F>
void ForEachElement(std::string_view list, F visit) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view element = TrimBlanks(list.substr(0, comma));
    if (!element.empty()) visit(element);
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

// Returns true if an element of the list equals `wanted`, ignoring case.
inline bool HasElement(std::string_view list, std::string_view wanted) {
  bool found = false;
  ForEachElement(list, [&](std::string_view one) { found = found || EqualNoCase(one, wanted); });
  return found;
}

}  // namespace atl::http
