// UTF-8 by RFC 3629 section 4: nothing overlong, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace atl {

struct Utf8Character {
  uint32_t code = 0;
  size_t length = 0;  // bytes; 0: invalid
};

// Returns the first character of `text`, which must not be empty.
Utf8Character FirstUtf8(std::string_view text);

// Returns true if `text` consists of whole characters. The empty text does.
bool IsUtf8(std::string_view text);

// Returns how many bytes at the end of `text` begin a character without ending it. 0 also for what
// no byte could make a character.
size_t UnfinishedUtf8(std::string_view text);

}  // namespace atl
