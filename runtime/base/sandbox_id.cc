#include "runtime/base/sandbox_id.h"

#include "runtime/base/sys.h"

namespace atl {
namespace {

bool IsHyphenPosition(size_t i) {
  return i == 8 || i == 13 || i == 18 || i == 23;
}

}  // namespace

std::string NewSandboxId() {
  std::string random = sys::RandomBytes(16);
  random[6] = static_cast<char>((random[6] & 0x0f) | 0x40);  // RFC 9562: version 4
  random[8] = static_cast<char>((random[8] & 0x3f) | 0x80);  // variant 10
  const std::string hex = HexEncode(random);
  std::string id;
  id.reserve(kSandboxIdSize);
  for (char c : hex) {
    if (IsHyphenPosition(id.size())) id.push_back('-');
    id.push_back(c);
  }
  return id;
}

bool ValidSandboxId(std::string_view id) {
  if (id.size() != kSandboxIdSize) return false;
  for (size_t i = 0; i < id.size(); ++i) {
    const char c = id[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (IsHyphenPosition(i) ? c != '-' : !hex) return false;
  }
  return true;
}

std::string HexEncode(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

}  // namespace atl
