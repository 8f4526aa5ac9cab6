#include "runtime/api/gate/credential.h"

#include <algorithm>

#include "runtime/api/gate/secret_name.h"
#include "runtime/base/base64.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr std::string_view kKeyStart = "atl_";
constexpr std::string_view kTokenStart = "e1.";
constexpr std::string_view kSignedStart = "eyJ";  // base64url of '{"'
// Their first letters.
constexpr std::string_view kStarts = "ae";
constexpr size_t kKeyIdSize = 8;
constexpr size_t kSecretSize = 43;  // 32 bytes in base64url
constexpr size_t kMostKeyId = 256;

bool IsKeyIdByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

bool IsSecretByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// Returns the size of the key or token that the text begins with; 0: none.
size_t SizeAtStart(std::string_view text) {
  const auto all = [](std::string_view part, bool (*fits)(char)) {
    return std::all_of(part.begin(), part.end(), fits);
  };
  if (text.starts_with(kKeyStart)) {
    constexpr size_t kMiddle = kKeyStart.size() + kKeyIdSize;
    constexpr size_t kWhole = kMiddle + 1 + kSecretSize;
    const bool fits = text.size() >= kWhole && text[kMiddle] == '_' &&
                      all(text.substr(kKeyStart.size(), kKeyIdSize), IsKeyIdByte) &&
                      all(text.substr(kMiddle + 1, kSecretSize), IsSecretByte);
    return fits ? kWhole : 0;
  }
  if (!text.starts_with(kTokenStart)) return 0;
  // e1.{key id}.{sandbox id}.{MAC}. The bound keeps hostile texts from costing a square.
  constexpr size_t kBehind = 1 + kSandboxIdSize + 1 + kSecretSize;
  for (size_t dot = kTokenStart.size() + 1; dot <= kTokenStart.size() + kMostKeyId; ++dot) {
    if (dot + kBehind > text.size()) return 0;
    if (text[dot] == '.' && text[dot + 1 + kSandboxIdSize] == '.' &&
        ValidSandboxId(text.substr(dot + 1, kSandboxIdSize)) &&
        all(text.substr(dot + kBehind - kSecretSize, kSecretSize), IsSecretByte)) {
      return dot + kBehind;
    }
  }
  return 0;
}

// Returns the size of the signed token that the text begins with, in three parts; 0: none.
size_t SizeOfSigned(std::string_view text) {
  if (!text.starts_with(kSignedStart)) return 0;
  size_t end = 0;
  for (int part = 0; part < 3; ++part) {
    if (part != 0 && (end == text.size() || text[end++] != '.')) return 0;
    const size_t begin = end;
    while (end < text.size() && IsSecretByte(text[end])) ++end;
    if (end == begin) return 0;
  }
  return end;
}

struct Place {
  size_t at = std::string_view::npos;  // npos: none
  size_t size = 0;
};
// Finds the first key or token that begins at `from` or behind it. `with_signed`: or signed token.
Place Next(std::string_view text, size_t from, bool with_signed) {
  for (size_t at = text.find_first_of(kStarts, from); at != std::string_view::npos;
       at = text.find_first_of(kStarts, at + 1)) {
    if (const size_t size = SizeAtStart(text.substr(at)); size != 0) return {at, size};
    // Only at the start of a word, so that hostile texts do not cost a square.
    if (!with_signed || (at != 0 && IsSecretByte(text[at - 1]))) continue;
    if (const size_t size = SizeOfSigned(text.substr(at)); size != 0) return {at, size};
  }
  return {};
}

bool HoldsPlain(std::string_view text) {
  return Next(text, 0, false).size != 0;
}

}  // namespace

std::string WithoutTokens(std::string_view text) {
  std::string shown;
  size_t from = 0;
  for (Place found = Next(text, 0, true); found.size != 0; found = Next(text, from, true)) {
    shown.append(text.substr(from, found.at - from)).append(kHidden);
    from = found.at + found.size;
  }
  return shown.append(text.substr(from));
}

std::string DecodeEscapes(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string byte;
    if (text[i] == '%' && http::PercentDecode(text.substr(i, 3), &byte)) {
      decoded.append(byte);
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

bool HoldsCredential(std::string_view text) {
  constexpr std::string_view kScheme = "Basic ";
  if (HoldsPlain(text)) return true;
  if (text.find('%') != std::string_view::npos && HoldsPlain(DecodeEscapes(text))) return true;
  if (!http::EqualNoCase(text.substr(0, kScheme.size()), kScheme)) return false;
  // Servers accept base64 with too little padding, which the decoder refuses.
  std::string_view base64 = http::TrimBlanks(text.substr(kScheme.size()));
  base64 = base64.substr(0, base64.find('='));
  const auto decoded = DecodeBase64(base64);
  return decoded && HoldsPlain(*decoded);
}

}  // namespace atl::api
