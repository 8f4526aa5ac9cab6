// Limits as people write them. A request's words are a stranger's; what cannot be understood or
// cannot be enforced is refused, never ignored.
//
//   kCpu      "1", "0.5", "500m"         cores, or thousandths of one
//   kBytes    "512Mi", "1g", "1048576"   Ki Mi Gi Ti are binary, k m g t decimal, any case
//   kCount    "512"
//   a key with several fields (io)       "rbps=10Mi,wbps=…,riops=…,wiops=…"
//   gpu       refused with kUnimplemented
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cgroup/limits.h"
#include "runtime/base/result.h"

namespace atl::cgroup {

// `available` is what the host can enforce: keys of kLimitFields (the spawner's hello). A limit
// that the request names and that is not in it is kInvalidArgument, "disk" kUnimplemented; a
// default that is not in it is left out, because the operator of such a host has been told at
// start.
Result<Limits> ParseLimits(const std::map<std::string, std::string>& requested,
                           const Limits& defaults, const std::vector<std::string>& available);

// One value within the field's bounds. The error quotes the text and says what is allowed.
Result<uint64_t> ParseLimit(const LimitField& field, std::string_view text);
// The inverse: "16Mi", "512", "500m".
std::string LimitText(const LimitField& field, uint64_t value);

// Bytes, for other users of the same units. Errors name only the text.
Result<uint64_t> ParseBytes(std::string_view text);
// "16Mi" for what divides by it.
std::string BytesText(uint64_t bytes);

}  // namespace atl::cgroup
