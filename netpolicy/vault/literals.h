// Finds and replaces literal texts, in time linear in the length of the text. The bound matters
// because whoever writes a vault chooses both the literals and the texts.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::vault {

// Returns where `literal` begins in `text`, ascending, including overlapping occurrences. An empty
// literal occurs nowhere. `text` must be shorter than 4 GiB.
std::vector<uint32_t> Occurrences(std::string_view text, std::string_view literal);

struct Replacement {
  std::string_view find;
  std::string put;
};

// Replaces each occurrence of a `find`, from left to right. At one place the longest `find` wins,
// of equal ones the first. Replaced text is not searched again. Empty if nothing was found.
// kResourceExhausted: the result would exceed `most` bytes.
Result<std::optional<std::string>> ReplaceOnce(std::string_view text,
                                               const std::vector<Replacement>& replacements,
                                               size_t most);

}  // namespace atl::vault
