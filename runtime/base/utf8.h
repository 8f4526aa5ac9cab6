// UTF-8 as RFC 3629 section 4 has it: nothing overlong, no surrogate, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace atl {

struct Utf8Character {
  uint32_t code = 0;
  size_t length = 0;  // in bytes; 0: there is none
};

// The one that `text`, which is not empty, begins with.
Utf8Character FirstUtf8(std::string_view text);

// Whether `text` is whole characters; the empty text is.
bool IsUtf8(std::string_view text);

}  // namespace atl
