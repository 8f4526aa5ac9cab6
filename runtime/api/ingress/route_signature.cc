#include "runtime/api/ingress/route_signature.h"

#include <algorithm>

#include "runtime/api/ingress/auth.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/base/sha256.h"

namespace atl::api {
namespace {

constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr size_t kMaxBase36 = 13;  // the digits of 2^64 - 1

void AppendSized(std::string_view bytes, std::string* out) {
  const auto size = static_cast<uint32_t>(bytes.size());
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(size >> shift));
  out->append(bytes);
}

}  // namespace

std::string ToBase36(uint64_t number) {
  std::string text;
  do {
    text.push_back(kDigits[number % 36]);
    number /= 36;
  } while (number != 0);
  std::reverse(text.begin(), text.end());
  return text;
}

std::optional<uint64_t> FromBase36(std::string_view text) {
  if (text.empty() || text.size() > kMaxBase36 || (text.size() > 1 && text.front() == '0')) {
    return std::nullopt;
  }
  uint64_t number = 0;
  for (char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    if (__builtin_mul_overflow(number, 36, &number) ||
        __builtin_add_overflow(number, digit, &number)) {
      return std::nullopt;
    }
  }
  return number;
}

std::string SignRoute(const RouteKey& key, SignatureForm form, std::string_view sandbox_id,
                      int port, std::string_view expires36) {
  std::string text = form == SignatureForm::kShort ? "v1\nshort\n" : "v1\nlong\n";
  text.append(sandbox_id).append("\n");
  text.append(std::to_string(port)).append("\n");
  text.append(expires36).append("\n");
  std::string signed_bytes;
  AppendSized(key.secret, &signed_bytes);
  AppendSized(text, &signed_bytes);
  const std::string digest = Sha256(signed_bytes);
  if (form == SignatureForm::kShort) {
    return HexEncode(digest).substr(0, kShortSignature - 1) + key.id;
  }
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) {
    number = number << 8 | static_cast<unsigned char>(digest[i]);
  }
  // Uses the last digits, because the first digits of a number are not evenly distributed.
  const std::string digits = std::string(kMaxBase36, '0') + ToBase36(number);
  return digits.substr(digits.size() - (kLongSignature - 1)) + key.id;
}

bool VerifyRoute(const std::vector<RouteKey>& keys, std::string_view sandbox_id, int port,
                 std::string_view expires36, std::string_view signature) {
  if (signature.size() != kShortSignature && signature.size() != kLongSignature) return false;
  const auto form =
      signature.size() == kShortSignature ? SignatureForm::kShort : SignatureForm::kLong;
  for (const RouteKey& key : keys) {
    if (key.id != signature.back()) continue;
    return SameSecret(signature, SignRoute(key, form, sandbox_id, port, expires36));
  }
  return false;
}

}  // namespace atl::api
