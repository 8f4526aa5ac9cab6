// Limits as text. The text of a request is hostile. A value that cannot be parsed or enforced is
// refused, never ignored.
//
//   kCpu      "1", "0.5", "500m"         CPUs, or thousandths of one
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

// The limits that a host can keep.
struct Enforceable {
  std::vector<std::string> keys;  // keys of kLimitFields, from the spawner's hello
  // The operator lets requests for a disk limit pass where the store has no quotas: the sandbox
  // then has none.
  bool drops_disk = false;
};

// Parses what a request asks for. A limit that it names and that `host` cannot keep is
// kInvalidArgument, "disk" kUnimplemented unless the host drops it. A default that the host cannot
// keep is left out, because the operator of such a host has been told at start.
// "ephemeral-storage", as Kubernetes calls it, is "disk"; a request names one of the two.
Result<Limits> ParseLimits(const std::map<std::string, std::string>& requested,
                           const Limits& defaults, const Enforceable& host);

// Parses one value within the field's bounds. The error quotes the text and says what is allowed.
Result<uint64_t> ParseLimit(const LimitField& field, std::string_view text);
// The inverse of ParseLimit: "16Mi", "512", "500m".
std::string LimitText(const LimitField& field, uint64_t value);

// Parses bytes with the same units, for other users. Errors quote only the text.
Result<uint64_t> ParseBytes(std::string_view text);
// Formats bytes with the largest unit that divides them, such as "16Mi".
std::string BytesText(uint64_t bytes);

}  // namespace atl::cgroup
