// Limits of the work for one archive. Set by KEY=VALUE arguments of atoll-unpack.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images::unpack {

struct ExtractLimits {
  // size of file contents, including holes, and of the stream
  uint64_t max_bytes = uint64_t{64} << 30;
  uint64_t max_entries = 2'000'000;  // files and directories, including implied parents
  uint64_t max_members = 4096;       // members of an image archive
  // Beyond `ratio_floor` bytes, a stream that has grown to more than `ratio` times its compressed
  // size counts as a bomb. Real layers stay under 20; a layer of zeros reaches 1,000.
  uint64_t ratio = 200;
  uint64_t ratio_floor = uint64_t{1} << 30;
};

// Parses "KEY=NUMBER" into the field of that key. kInvalidArgument: unknown key, or not a number.
struct NumberField {
  std::string_view key;
  uint64_t* number;
};
Status SetNumber(std::initializer_list<NumberField> fields, std::string_view argument);
// Parses one limit, such as "max_bytes=1048576".
Status SetLimit(ExtractLimits& limits, std::string_view argument);

}  // namespace atl::images::unpack
