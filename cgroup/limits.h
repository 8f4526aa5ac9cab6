// What a create request may say about resources, and the limits that follow. A request's words are
// a stranger's; what cannot be understood or cannot be enforced is refused, never ignored.
//
//   cpu     "1", "0.5", "500m"             cores, or thousandths of one
//   memory  "512Mi", "1g", "1048576"       bytes; Ki Mi Gi Ti are binary, k m g t decimal, any case
//   swap    as memory, "0" for none        swap on top of memory; none unless asked for
//   pids    "512"                          processes and threads
//   io      "rbps=10Mi,wbps=…,riops=…,wiops=…"   on the device of the data directory
//   disk    as memory                      what the sandbox may write, where the store has quotas
//   gpu     refused with kUnimplemented
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/plan.h"

namespace atl::cgroup {

// What a request that says nothing gets.
struct LimitDefaults {
  uint32_t cpu_millis = 1000;
  uint64_t memory_bytes = 512ULL << 20;
  uint32_t pids = 512;
  uint64_t disk_bytes = 10ULL << 30;
};

// The bounds of what may be asked for. Below the minima nothing useful runs, and an OOM kill or a
// failed fork in the first millisecond would be the only answer.
inline constexpr uint64_t kMinMemoryBytes = 6ULL << 20;
inline constexpr uint64_t kMaxMemoryBytes = 64ULL << 40;
inline constexpr uint32_t kMinCpuMillis = 10;  // the kernel's smallest quota is 1 ms in 100 ms
inline constexpr uint32_t kMaxCpuMillis = 1024 * 1000;
inline constexpr uint32_t kMinPids = 8;
inline constexpr uint32_t kMaxPids = 4194304;  // PID_MAX_LIMIT
inline constexpr uint64_t kMinIoBps = 64ULL << 10;
inline constexpr uint64_t kMinDiskBytes = 1ULL << 20;

// `available` is what the host can enforce: some of "memory", "swap", "pids", "cpu", "io", "disk"
// (the spawner's hello). A limit that the request names and that is not in it is kInvalidArgument,
// "disk" kUnimplemented; a default that is not in it is left out, because the operator of such a
// host has been told at start.
Result<wire::Limits> ParseLimits(const std::map<std::string, std::string>& requested,
                                 const LimitDefaults& defaults,
                                 const std::vector<std::string>& available);

// One quantity, for other users of the same units (configuration). Errors name only the text.
Result<uint64_t> ParseBytes(std::string_view text);
Result<uint32_t> ParseCpuMillis(std::string_view text);

}  // namespace atl::cgroup
