#include <algorithm>

#include "cgroup/host.h"
#include "cgroup/limits.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

std::vector<Finding> CheckCgroups() {
  const auto host = cgroup::DetectHost();
  if (!host) {
    return {
        Missing("cgroups", host.error().message(), "boot with systemd.unified_cgroup_hierarchy=1")};
  }
  std::vector<std::string> missing;
  for (const cgroup::LimitField& field : cgroup::kLimitFields) {
    if (field.keeper != cgroup::LimitKeeper::kController) continue;
    const auto has = [&](const auto& in) {
      return std::find(in.begin(), in.end(), field.key) != in.end();
    };
    if (!has(host->limits) && !has(missing)) missing.emplace_back(field.key);
  }
  std::vector<Finding> found;
  const std::string backend = host->v2 ? "v2 backend at " : "hybrid backend, v2 at ";
  if (host->v2) {
    found.push_back(Ok("cgroups", backend + host->unified));
  } else {
    found.push_back(Warning("cgroups", backend + host->unified + ", limits on v1 controllers",
                            "boot with systemd.unified_cgroup_hierarchy=1 for cgroup v2 alone"));
  }
  if (missing.empty()) {
    found.push_back(Ok("limits", "can be enforced: " + Join(host->limits)));
  } else {
    found.push_back(Warning("limits",
                            "can be enforced: " + Join(host->limits) + "; not: " + Join(missing) +
                                " (requests that ask for them are refused)",
                            host->v2 ? "enable the controllers in the kernel"
                                     : "boot with systemd.unified_cgroup_hierarchy=1"));
  }
  return found;
}

}  // namespace atl::doctor
