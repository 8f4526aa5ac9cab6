#include "runtime/base/same_secret.h"

#include <cstddef>

namespace atl {

bool SameSecret(std::string_view given, std::string_view expected) {
  // The length is no secret. The work does not depend on where the texts differ. volatile keeps the
  // optimiser from adding an early exit.
  volatile unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = static_cast<unsigned char>(i < given.size() ? given[i] : 0);
    const auto b = static_cast<unsigned char>(expected[i]);
    difference = difference | static_cast<unsigned>(a ^ b);
  }
  return difference == 0;
}

}  // namespace atl
