#include "runtime/base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace atl {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Six bits for each letter. A table, because all output of commands passes through here.
constexpr uint8_t kNoLetter = 0xff;
constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNoLetter);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<uint8_t>(i);
  }
  return values;
}();

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '=');
  char* to = text.data();
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  const auto put = [&](uint32_t group, int letters) {
    for (int k = 0; k < letters; ++k) *to++ = kAlphabet[group >> (18 - 6 * k) & 63];
  };
  size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    put(byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2), 4);
  }
  const size_t left = bytes.size() - i;
  if (left == 1) put(byte(i) << 16, 2);
  if (left == 2) put(byte(i) << 16 | byte(i + 1) << 8, 3);
  return text;
}

std::string EncodeBase64Url(std::string_view bytes) {
  std::string text = EncodeBase64(bytes);
  text.resize(std::min(text.find('='), text.size()));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  const bool padded = text.ends_with('=');
  if (padded && text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes(text.size() * 3 / 4, '\0');
  char* to = bytes.data();
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const uint8_t value = kValues[static_cast<uint8_t>(c)];
    if (value == kNoLetter) return std::nullopt;
    bits = bits << 6 | value;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    *to++ = static_cast<char>(bits >> held & 0xff);
    bits &= (1U << held) - 1;
  }
  if (bits != 0) return std::nullopt;
  return bytes;
}

}  // namespace atl
