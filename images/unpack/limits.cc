#include "images/unpack/limits.h"

#include <charconv>
#include <string>

namespace atl::images::unpack {

Status SetLimit(ExtractLimits& limits, std::string_view argument) {
  const size_t equals = argument.find('=');
  const std::string_view key = argument.substr(0, equals);
  uint64_t* field = key == "max_bytes"     ? &limits.max_bytes
                    : key == "max_entries" ? &limits.max_entries
                    : key == "max_members" ? &limits.max_members
                    : key == "ratio"       ? &limits.ratio
                    : key == "ratio_floor" ? &limits.ratio_floor
                                           : nullptr;
  if (field != nullptr && equals != std::string_view::npos) {
    const char* const end = argument.data() + argument.size();
    const auto [rest, error] = std::from_chars(argument.data() + equals + 1, end, *field);
    if (error == std::errc() && rest == end) return {};
  }
  return Fail(Code::kInvalidArgument, "not a limit: '" + std::string(argument) + "'");
}

}  // namespace atl::images::unpack
