#include "runtime/spawner/limit_policy.h"

#include <algorithm>
#include <string>

namespace atl::spawner {
namespace {

constexpr uint64_t kMinMemoryBytes = 4 << 20;
constexpr uint32_t kMinPids = 4;
constexpr uint32_t kMinCpuMillis = 1;

}  // namespace

Status CheckLimits(const Host& host, const wire::Limits& limits) {
  const auto check = [&](const char* name, uint64_t value, uint64_t least) -> Status {
    const auto& kept = host.cgroups.host().limits;
    if (value >= least) return {};
    if (value == 0 && std::find(kept.begin(), kept.end(), name) == kept.end()) return {};
    return Fail(Code::kInvalidArgument, std::string("limits: ") + name + " " +
                                            std::to_string(value) + " is below " +
                                            std::to_string(least));
  };
  ATOLL_TRY(check("memory", limits.memory_bytes, kMinMemoryBytes));
  ATOLL_TRY(check("pids", limits.pids, kMinPids));
  return check("cpu", limits.cpu_millis, kMinCpuMillis);
}

}  // namespace atl::spawner
