#include "runtime/api/ingress/credential.h"

#include <algorithm>

#include "runtime/base/base64.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr std::string_view kShownKey = "atl_";
constexpr std::string_view kShownToken = "e1.";
constexpr size_t kKeyId = 8;
constexpr size_t kSecret = 43;  // 32 bytes in base64url

bool IsOfSecret(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool BeginsWithSecret(std::string_view text) {
  return text.size() >= kSecret && std::all_of(text.begin(), text.begin() + kSecret, IsOfSecret);
}

// Returns true if "atl_" is followed by the rest of a key.
bool IsRestOfKey(std::string_view text) {
  const auto is_of_id = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7'); };
  return text.size() > kKeyId && std::all_of(text.begin(), text.begin() + kKeyId, is_of_id) &&
         text[kKeyId] == '_' && BeginsWithSecret(text.substr(kKeyId + 1));
}

// Returns true if "e1." is followed by the rest of a token.
bool IsRestOfToken(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsOfSecret);
  const auto key_id = static_cast<size_t>(end - text.begin());
  text.remove_prefix(key_id);
  return key_id != 0 && text.size() > kSandboxIdSize + 2 && text.front() == '.' &&
         ValidSandboxId(text.substr(1, kSandboxIdSize)) && text[1 + kSandboxIdSize] == '.' &&
         BeginsWithSecret(text.substr(kSandboxIdSize + 2));
}

bool HoldsPlain(std::string_view text) {
  const auto holds = [text](std::string_view prefix, bool (*is_rest)(std::string_view)) {
    for (size_t at = text.find(prefix); at != std::string_view::npos;
         at = text.find(prefix, at + 1)) {
      if (is_rest(text.substr(at + prefix.size()))) return true;
    }
    return false;
  };
  return holds(kShownKey, IsRestOfKey) || holds(kShownToken, IsRestOfToken);
}

}  // namespace

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
  // Servers accept base64 without its padding, the decoder may not.
  std::string base64(http::TrimBlanks(text.substr(kScheme.size())));
  base64.resize(std::min(base64.find('='), base64.size()));
  base64.append((4 - base64.size() % 4) % 4, '=');
  const auto decoded = DecodeBase64(base64);
  return decoded && HoldsPlain(*decoded);
}

}  // namespace atl::api
