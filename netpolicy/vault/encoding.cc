#include "netpolicy/vault/encoding.h"

#include <cstdint>

#include "runtime/base/utf8.h"
#include "runtime/http/ascii.h"

namespace atl::vault {
namespace {

constexpr char kUpperHex[] = "0123456789ABCDEF";
constexpr char kLowerHex[] = "0123456789abcdef";

bool IsUnreserved(char c) {
  return http::IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string PercentEncoded(std::string_view text, std::string_view blank) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsUnreserved(c)) {
      out.push_back(c);
    } else if (c == ' ') {
      out.append(blank);
    } else {
      out.push_back('%');
      out.push_back(kUpperHex[byte >> 4]);
      out.push_back(kUpperHex[byte & 15]);
    }
  }
  return out;
}

void AppendUnit(uint32_t unit, std::string& out) {
  out.append("\\u");
  for (const int shift : {12, 8, 4, 0}) out.push_back(kLowerHex[(unit >> shift) & 15]);
}

void AppendEscape(uint32_t code, std::string& out) {
  if (code < 0x10000) return AppendUnit(code, out);
  code -= 0x10000;
  AppendUnit(0xd800 + (code >> 10), out);
  AppendUnit(0xdc00 + (code & 0x3ff), out);
}

// Returns the letter of JSON's two-letter escape, '\0' if there is none.
char ShortEscape(uint32_t code) {
  switch (code) {
    case '"':
    case '\\':
      return static_cast<char>(code);
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return '\0';
  }
}

bool NeedsEscape(uint32_t code, JsonStyle style) {
  if (code < 0x20) return true;
  if (style == JsonStyle::kAscii) return code >= 0x7f;
  return code == '<' || code == '>' || code == '&' || code == 0x2028 || code == 0x2029;
}

}  // namespace

int EscapedByte(std::string_view text, size_t at) {
  if (text[at] != '%' || at + 2 >= text.size()) return -1;
  const int high = http::HexValue(text[at + 1]), low = http::HexValue(text[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string UrlEncoded(std::string_view text) {
  return PercentEncoded(text, "%20");
}

std::string FormEncoded(std::string_view text) {
  return PercentEncoded(text, "+");
}

std::string JsonEscaped(std::string_view text, JsonStyle style) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = FirstUtf8(text);
    const char letter = length == 1 ? ShortEscape(code) : '\0';
    if (letter != '\0') {
      out.push_back('\\');
      out.push_back(letter);
    } else if (length > 0 && NeedsEscape(code, style)) {
      AppendEscape(code, out);
    } else {
      out.append(text.substr(0, length > 0 ? length : 1));
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

}  // namespace atl::vault
