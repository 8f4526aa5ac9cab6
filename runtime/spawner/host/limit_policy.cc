#include "runtime/spawner/host/limit_policy.h"

#include "runtime/wire/tier.h"

#include <algorithm>

namespace atl::spawner {
namespace {

bool Keeps(const Host& host, const cgroup::LimitField& field) {
  const auto& controllers = host.cgroups.host().limits;
  switch (field.keeper) {
    case cgroup::LimitKeeper::kController:
      return std::find(controllers.begin(), controllers.end(), field.key) != controllers.end();
    case cgroup::LimitKeeper::kQuota:
      return host.store.HasQuota();
    case cgroup::LimitKeeper::kSpawner:
      return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> KeptLimits(const Host& host) {
  std::vector<std::string> kept;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (Keeps(host, field) && (kept.empty() || kept.back() != field.key)) {
      kept.emplace_back(field.key);
    }
  }
  return kept;
}

Status CheckLimits(const Host& host, const cgroup::Limits& limits) {
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    const uint64_t value = limits.*field.value;
    if (value >= field.smallest && value <= field.largest) continue;
    const bool needed = field.need == cgroup::LimitNeed::kRequired && Keeps(host, field);
    if (value == 0 && !needed) continue;
    return Fail(Code::kInvalidArgument, std::string("limits: ") + field.name + " " +
                                            std::to_string(value) + " is not from " +
                                            std::to_string(field.smallest) + " to " +
                                            std::to_string(field.largest));
  }
  return {};
}

Status CheckKept(const Host& host, const cgroup::Limits& limits) {
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (limits.*field.value == 0 || Keeps(host, field)) continue;
    return Fail(Code::kInvalidArgument,
                std::string("limits: this host cannot limit ") + field.name);
  }
  return {};
}

cgroup::Limits OnlyKept(const Host& host, const cgroup::Limits& limits) {
  cgroup::Limits kept;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (Keeps(host, field)) kept.*field.value = limits.*field.value;
  }
  return kept;
}

cgroup::Limits WithOverhead(std::string_view tier, cgroup::Limits limits) {
  const wire::TierOverhead overhead = wire::OverheadOf(tier);
  if (limits.memory_bytes != 0) limits.memory_bytes += overhead.memory_bytes;
  if (limits.pids != 0) limits.pids = limits.pids * overhead.pids_factor + overhead.pids;
  return limits;
}

}  // namespace atl::spawner
