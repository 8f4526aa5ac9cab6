// Finds and replaces texts as they stand, in time linear in the text whatever the texts are: who
// writes a vault also says what is looked for, and in what.
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

// Where `literal` begins in `text`, in rising order, occurrences that overlap included. An empty
// literal is nowhere. `text`: less than 4 GiB.
std::vector<uint32_t> Occurrences(std::string_view text, std::string_view literal);

struct Replacement {
  std::string_view find;
  std::string put;
};

// The text with each occurrence of a `find` replaced, from the left, of several at one place the
// longest, of equal ones the first. What has been put in is not looked at again. Nothing if there
// is none. kResourceExhausted: the result would have more than `most` bytes.
Result<std::optional<std::string>> ReplaceOnce(std::string_view text,
                                               const std::vector<Replacement>& replacements,
                                               size_t most);

}  // namespace atl::vault
