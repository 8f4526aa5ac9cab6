// How much an archive may make us do. Settable as KEY=VALUE arguments of atoll-unpack.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images::unpack {

struct ExtractLimits {
  uint64_t max_bytes = uint64_t{64} << 30;  // of file contents, holes included, and of the stream
  uint64_t max_entries = 2'000'000;         // files and directories, implied parents included
  uint64_t max_members = 4096;              // of an image archive
  // A stream that has grown to more than `ratio` times its compressed size is a bomb once it is
  // over `ratio_floor` bytes: real layers stay under 20, a layer of zeros reaches 1,000.
  uint64_t ratio = 200;
  uint64_t ratio_floor = uint64_t{1} << 30;
};

// "KEY=NUMBER" into what stands with KEY; an unknown key or no number is kInvalidArgument.
struct NumberField {
  std::string_view key;
  uint64_t* number;
};
Status SetNumber(std::initializer_list<NumberField> fields, std::string_view argument);
// "max_bytes=1048576" and so on.
Status SetLimit(ExtractLimits& limits, std::string_view argument);

}  // namespace atl::images::unpack
