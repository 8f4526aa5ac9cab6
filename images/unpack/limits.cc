#include "images/unpack/limits.h"

#include <charconv>
#include <string>

namespace atl::images::unpack {

Status SetNumber(std::initializer_list<NumberField> fields, std::string_view argument) {
  const size_t equals = argument.find('=');
  for (const auto& [key, number] : fields) {
    if (equals == std::string_view::npos || key != argument.substr(0, equals)) continue;
    const char* const end = argument.data() + argument.size();
    const auto [rest, error] = std::from_chars(argument.data() + equals + 1, end, *number);
    if (error == std::errc() && rest == end) return {};
  }
  return Fail(Code::kInvalidArgument,
              "not a KEY=NUMBER of this job: '" + std::string(argument) + "'");
}

Status SetLimit(ExtractLimits& limits, std::string_view argument) {
  return SetNumber({{"max_bytes", &limits.max_bytes},
                    {"max_entries", &limits.max_entries},
                    {"max_members", &limits.max_members},
                    {"ratio", &limits.ratio},
                    {"ratio_floor", &limits.ratio_floor}},
                   argument);
}

}  // namespace atl::images::unpack
