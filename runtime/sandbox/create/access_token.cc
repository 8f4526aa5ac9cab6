#include "runtime/sandbox/create/access_token.h"

#include <cstdint>

#include "runtime/base/sys.h"

namespace atl::sandbox {

std::string NewAccessToken() {
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string token;
  uint32_t bits = 0;
  int held = 0;
  for (char c : sys::RandomBytes(32)) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    held += 8;
    while (held >= 6) {
      held -= 6;
      token.push_back(kAlphabet[(bits >> held) & 63]);
    }
  }
  token.push_back(kAlphabet[(bits << (6 - held)) & 63]);
  return token;
}

}  // namespace atl::sandbox
